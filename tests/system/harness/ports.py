"""Ports for servers under test. They lie below those that the kernel gives to outgoing connections, so that no connection of another process takes
one between the choice and the start, or while a server is restarted; each is locked for as long as the choosing process lives, so that tests
which run beside each other never choose the same."""
import fcntl
import os
import pathlib
import random
import socket
import tempfile

LOWEST = 20_000  # below are the products' own and the quickstarts' (7811 … 17881)
locks = {}


def highest():
    try:
        return int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]) - 1
    except OSError:
        return 32_767


def locked(port):
    folder = pathlib.Path(tempfile.gettempdir()) / f"zaris-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    file = os.open(folder / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return False
    locks[port] = file
    return True


def nobody_listens(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: connections that have just ended are no hindrance
        try:
            s.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def free_port():
    top = highest()
    lowest = LOWEST if top > LOWEST + 1000 else 1024
    for _ in range(10_000):
        port = random.randint(lowest, top)
        if port in locks or not locked(port):
            continue
        if nobody_listens(port):
            return port
        os.close(locks.pop(port))
    raise SystemExit(f"no free port from {lowest} to {top}")
