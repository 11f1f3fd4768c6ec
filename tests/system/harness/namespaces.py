"""Machines of their own on one machine: network namespaces on a bridge, whose cables can be pulled.

    namespaces.enter_own()              # first thing in a test: goes on in namespaces that end with it, or ends as "skipped"
    net = namespaces.Net()
    a, b = net.host("a"), net.host("b")
    net.cut(a)                          # its cable is out: packets vanish, nobody is told
    net.part(a, b)                      # these two do not hear each other, all others do
    net.mute(a, b)                      # b hears nothing of a; a hears b
    net.heal()

Everything (interfaces, names, processes) is in namespaces of the test, so that nothing is left when it ends, however it ends.
"""
import concurrent.futures
import ctypes
import os
import subprocess
import sys

SKIPPED = 77  # SKIP_RETURN_CODE of these tests
INSIDE = "ZARIS_TEST_INSIDE_NAMESPACES"
CLONE_NEWNET = 0x40000000
NOBODY = "02:00:00:00:00:fe"  # a hardware address that nobody on the bridge has
_libc = ctypes.CDLL(None, use_errno=True)


def enter_own():
    """Returns inside namespaces of our own: network, mounts, processes. Not permitted: says so and ends with SKIPPED."""
    if INSIDE in os.environ:
        return
    refused = []
    for user in ((), ("--user", "--map-root-user")):
        own = ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        trial = "mount -t tmpfs none /run && mkdir /run/netns && ip link add bridge type bridge && ip netns add trial && ip link add port type veth peer name eth0 netns trial && ip netns exec trial true"
        try:
            tried = subprocess.run([*own, "sh", "-c", trial], capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            refused.append(str(error))
            continue
        if tried.returncode == 0:
            os.execvpe(own[0], [*own, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})
        refused.append(tried.stderr.strip())
    print("SKIPPED: network namespaces are not permitted here, so that NOTHING WAS CUT OFF and nothing is shown: " + "; ".join(refused), flush=True)
    raise SystemExit(SKIPPED)


def ip(*words, check=True):
    run = subprocess.run(["ip", *map(str, words)], capture_output=True, text=True)
    assert not check or run.returncode == 0, f"ip {' '.join(map(str, words))}: {run.stderr}"


class Host:
    """One machine: `address` on the bridge, `run` what a program is started with to be on it."""

    def __init__(self, name, address):
        self.name, self.address = name, address
        self.run = ("ip", "netns", "exec", name)
        self.threads = concurrent.futures.ThreadPoolExecutor(4, initializer=self.enter)

    def enter(self):
        """The calling thread is on this machine from now on: for threads that a test begins for that."""
        with open(f"/run/netns/{self.name}", "rb") as namespace:
            if _libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"setns {self.name}")

    def call(self, function, *arguments, **options):
        """What `function` returns when it is called on this machine; needs no cable."""
        return self.threads.submit(function, *arguments, **options).result()


class Net:
    """A bridge; the test itself is on it too, and is never cut off. At most 200 hosts. One per test."""

    def __init__(self):
        subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
        os.mkdir("/run/netns")
        ip("link", "set", "lo", "up")
        ip("link", "add", "bridge", "type", "bridge")
        ip("address", "add", "10.79.0.1/24", "dev", "bridge")
        ip("link", "set", "bridge", "up")
        self.hosts, self.down, self.muted = {}, set(), set()

    def host(self, name):
        """The machine of that name, made when it is first asked for."""
        if name not in self.hosts:
            host = self.hosts[name] = Host(name, f"10.79.0.{10 + len(self.hosts)}")
            ip("netns", "add", name)
            ip("link", "add", f"p-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"p-{name}", "master", "bridge", "up")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "address", "add", f"{host.address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        return self.hosts[name]

    def cut(self, host):
        """Pulls its cable."""
        ip("link", "set", f"p-{host.name}", "down")
        self.down.add(host.name)

    def mute(self, host, other):
        """What `host` sends to `other` goes to a hardware address that nobody has: it vanishes, and nobody is told."""
        ip("-n", host.name, "neighbour", "replace", other.address, "lladdr", NOBODY, "nud", "permanent", "dev", "eth0")
        self.muted.add((host.name, other.address))

    def part(self, host, other):
        self.mute(host, other)
        self.mute(other, host)

    def heal(self):
        """Everybody hears everybody."""
        for name in self.down:
            ip("link", "set", f"p-{name}", "up")
        for name, address in self.muted:
            ip("-n", name, "neighbour", "delete", address, "dev", "eth0")
        self.down.clear()
        self.muted.clear()
