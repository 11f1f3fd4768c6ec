#!/usr/bin/python3
"""Our slots are those of a real redis-server's CLUSTER KEYSLOT, for thousands of odd keys."""
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

odd = [b"", b"{", b"}", b"{}", b"{}a", b"a{}b{c}", b"{{a}}", b"a{b", b"}{a", b"{a}{b}", b"x{y}z", b"}{a}", b"{a", b"a}", b"{ }", b"{\x00}",
       b"123456789", b"foo{bar}{zap}", b"foo{{bar}}zap", b"foo{}{bar}", b"\r\n", b"{\r\n}x", b"\xff\xfe", "schlüssel".encode(), b"k" * 65536]
odd += [bytes([b]) for b in range(256)] + [b"{" + bytes([b]) + b"}tail" for b in range(256)]
rng = random.Random(1)
alphabet = b"{}{}ab\x00\xff:1"
odd += [bytes(rng.choice(alphabet) for _ in range(rng.randrange(0, 24))) for _ in range(6000)]
odd += [bytes(rng.randrange(256) for _ in range(rng.randrange(0, 200))) for _ in range(2000)]

ours = subprocess.run([sys.argv[1]], input="\n".join(k.hex() for k in odd) + "\n", capture_output=True, text=True, check=True).stdout.split()

server_path = shutil.which("redis-server")
if server_path is None:
    sys.exit("redis-server is not installed (deploy/install-dependencies --tests)")
with tempfile.TemporaryDirectory() as folder:
    sock_path = str(pathlib.Path(folder) / "redis.sock")
    server = subprocess.Popen([server_path, "--port", "0", "--unixsocket", sock_path, "--cluster-enabled", "yes", "--save", "", "--dir", folder],
                              stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        sock = socket.socket(socket.AF_UNIX)
        while True:
            try:
                sock.connect(sock_path)
                break
            except OSError:
                if time.monotonic() > deadline or server.poll() is not None:
                    sys.exit("redis-server did not come up")
        wrong = 0
        answers = sock.makefile("rb")
        for start in range(0, len(odd), 256):
            part = odd[start : start + 256]
            sock.sendall(b"".join(b"*3\r\n$7\r\nCLUSTER\r\n$7\r\nKEYSLOT\r\n$%d\r\n%s\r\n" % (len(k), k) for k in part))
            for i, key in enumerate(part):
                line = answers.readline()
                slot = int(line[1:])
                if slot != int(ours[start + i]):
                    wrong += 1
                    print(f"{key!r}: redis {slot}, ours {ours[start + i]}", file=sys.stderr)
    finally:
        server.terminate()
        server.wait()
print(f"{len(odd) - wrong} passed, {wrong} failed")
sys.exit(1 if wrong else 0)
