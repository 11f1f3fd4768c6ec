#!/usr/bin/python3
"""`zaris` against real nodes: keys, tokens, expiry, export and import, digests, TLS, and the exit status of everything that can go wrong."""
import base64
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.fake_follower import FakeFollower, link  # noqa: E402
from harness.processes import BIN, Bench, free_port, run_zaris  # noqa: E402
from harness.waiting import eventually  # noqa: E402

passed = 0


def check(what, got, wanted):
    global passed
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, not {wanted!r}")
    passed += 1


def zaris(*arguments, stdin=b"", env=None):
    run = subprocess.run([str(BIN / "zaris"), *map(str, arguments)], input=stdin, capture_output=True, timeout=60, env={**os.environ, **(env or {})})
    return run.returncode, run.stdout, run.stderr.decode(errors="replace")


def fails(status, code, *arguments, **more):
    got, out, err = zaris(*arguments, **more)
    check(f"status of zaris {arguments}", (got, f"zaris: {code}: " in err, out), (status, True, b""))
    return err


def b64(data):
    return base64.b64encode(data).decode()


def keys(a):
    url = ("--url", a.url)
    status, token, _ = zaris("kv", "put", "greeting", "hello", *url)
    check("put", status, 0)
    token = token.decode().strip()
    check("get", zaris("kv", "get", "greeting", *url)[:2], (0, b"hello"))
    check("token", json.loads(zaris("kv", "get", "greeting", *url, "-o", "json")[1])["token"], token)
    fails(9, "conflict", "kv", "put", "greeting", "x", "--if-absent", *url)
    fails(9, "conflict", "kv", "cas", "greeting", "x", "--token", "1:00000000", *url)
    status, second, _ = zaris("kv", "cas", "greeting", "bye", "--token", token, *url)
    check("cas", (status, second.decode().split(":")[0]), (0, "2"))
    check("get", zaris("kv", "get", "greeting", *url)[1], b"bye")
    fails(9, "conflict", "kv", "del", "greeting", "--token", token, *url)
    check("del", zaris("kv", "del", "greeting", *url)[0], 0)
    fails(1, "not_found", "kv", "get", "greeting", *url)
    fails(1, "not_found", "kv", "del", "greeting", *url)
    fails(1, "not_found", "kv", "cas", "greeting", "x", "--token", token, *url)

    zaris("kv", "put", "session", "1", "--ttl", "100s", *url)
    left = float(zaris("kv", "ttl", "session", *url)[1])
    check("ttl", 90 < left <= 100, True)
    check("persist", zaris("kv", "touch", "session", "--persist", *url)[0], 0)
    check("ttl", zaris("kv", "ttl", "session", *url)[1], b"never\n")
    zaris("kv", "put", "gone", "1", "--expires-at", "1", *url)
    fails(1, "not_found", "kv", "get", "gone", *url)
    check("stdin", zaris("kv", "put", "pipe", "-", *url, stdin=b"\0\xff\n")[0], 0)
    check("bytes", zaris("kv", "get", "pipe", *url)[1], b"\0\xff\n")
    big = a.folder / "big"
    big.write_bytes(bytes(4 << 20))
    check("value at the limit", zaris("kv", "put", "big", "--file", big, *url)[0], 0)
    big.write_bytes(bytes((4 << 20) + 1))
    fails(7, "item_too_large", "kv", "put", "big", "--file", big, *url)
    check("key at the limit", zaris("kv", "put", "k" * 65536, "v", *url)[0], 0)
    fails(7, "item_too_large", "kv", "put", "k" * 65537, "v", *url)
    for key in ("big", "pipe", "session", "k" * 65536):
        check("del", zaris("kv", "del", key, *url)[0], 0)


def values(a):
    """A value is what was asked for, whole, or nothing is written."""
    url = ("--url", a.url)
    check("put", zaris("kv", "put", "kept", "kept", *url)[0], 0)
    fails(2, "usage", "kv", "put", "kept", *url)
    fails(2, "usage", "kv", "put", "kept", *url, stdin=b"from a pipe")
    fails(2, "usage", "kv", "cas", "kept", "--token", "1:00000000", *url)
    fails(2, "usage", "kv", "put", "kept", "value", "--file", "/dev/null", *url)
    fails(2, "usage", "kv", "put", "kept", "-", "--file", "/dev/null", *url)
    err = fails(3, "file_unreadable", "kv", "put", "kept", "--file", "/", *url)
    check("the file and the reason", "cannot read /: Is a directory" in err, True)
    fails(3, "file_unreadable", "kv", "put", "kept", "--file", "/nowhere", *url)
    folder = os.open("/", os.O_RDONLY)
    run = subprocess.run([str(BIN / "zaris"), "kv", "put", "kept", "-", *url], stdin=folder, capture_output=True, timeout=60)
    os.close(folder)
    check("a folder for standard input", (run.returncode, b"file_unreadable" in run.stderr), (3, True))
    fails(7, "item_too_large", "kv", "put", "kept", "--file", "/dev/zero", *url)
    with open("/dev/zero", "rb") as zeros:
        run = subprocess.run([str(BIN / "zaris"), "kv", "put", "kept", "-", *url], stdin=zeros, capture_output=True, timeout=60)
    check("no end", (run.returncode, b"item_too_large" in run.stderr), (7, True))
    check("nothing of that was written", zaris("kv", "get", "kept", *url)[1], b"kept")

    fails(2, "usage", "kv", "put", "kept", "v", "--ttl", "1h", "--expires-at", "1800000000000000", *url)
    fails(2, "usage", "kv", "touch", "kept", "--ttl", "1h", "--expires-at", "1800000000000000", *url)
    fails(2, "usage", "kv", "put", "kept", "v", "--ttl", "0s", *url)
    fails(2, "usage", "kv", "touch", "kept", "--ttl", "0s", *url)
    for time in ("18446744073709551616", "99999999999999999999999999", "-1", "tomorrow", "1.5"):
        fails(2, "usage", "kv", "put", "kept", "v", "--expires-at=" + time, *url)
        fails(2, "usage", "kv", "touch", "kept", "--expires-at=" + time, *url)
    check("nothing of that was written", (zaris("kv", "get", "kept", *url)[1], zaris("kv", "ttl", "kept", *url)[1]), (b"kept", b"never\n"))
    check("a far time", zaris("kv", "touch", "kept", "--expires-at", "18446744073709551615", *url)[0], 0)
    check("an empty value", zaris("kv", "put", "kept", "", *url)[0], 0)
    check("an empty value", zaris("kv", "get", "kept", *url)[:2], (0, b""))
    check("an empty file", zaris("kv", "put", "kept", "--file", "/dev/null", *url)[0], 0)
    check("del", zaris("kv", "del", "kept", *url)[0], 0)


def broken_input(a):
    """A read error is not the end of the file."""
    url = ("--url", a.url)
    err = fails(3, "file_unreadable", "kv", "import", "/", *url)
    check("the file, the reason, the rows", "cannot read /: Is a directory; 0 rows had been imported" in err, True)
    folder = os.open("/", os.O_RDONLY)
    run = subprocess.run([str(BIN / "zaris"), "kv", "import", *url], stdin=folder, capture_output=True, timeout=60)
    os.close(folder)
    check("a folder for standard input", (run.returncode, b"file_unreadable" in run.stderr), (3, True))
    # Five rows and half a one, then an error: a socket whose other end goes away with something unread.
    ours, theirs = socket.socketpair()
    theirs.sendall(b"unread")
    ours.sendall(b"".join(b'{"key":"%s","value":""}\n' % b64(b"broken:%d" % n).encode() for n in range(5)) + b'{"key":"')
    ours.close()
    run = subprocess.run([str(BIN / "zaris"), "kv", "import", "--batch", "2", *url], stdin=theirs, capture_output=True, timeout=60)
    theirs.close()
    check(f"half way: {run.stderr}", (run.returncode, b"file_unreadable: cannot read standard input: " in run.stderr, b"; 4 rows had been imported" in run.stderr), (3, True, True))
    check("so many are there", len(zaris("kv", "scan", "--prefix", "broken:", *url)[1].splitlines()), 4)
    check("del", zaris("kv", "del", "--prefix", "broken:", "--yes", *url)[0], 0)


def odd_keys():
    yield b""
    for byte in range(256):
        yield bytes([byte])
    yield from (b"{}a", b"a{}b{c}", b"{{a}}", b"a{b", b"}{a", b"{a}{b}", b"\r\n", b"\xff\xfe\xfd", "schlüssel".encode(), b"x" * 65536)
    for n in range(5000):
        yield b"row:%d" % n
    for n in range(3000):
        yield b"{one}%d" % n


def transfer(a, b):
    rows = {key: b"value of " + key[:50] for key in odd_keys()}
    rows[b"empty"] = b""
    lines = b"".join(json.dumps({"key": b64(k), "value": b64(v)}).encode() + b"\n" for k, v in rows.items())
    check("import", zaris("kv", "import", "--url", a.url, stdin=lines)[0], 0)
    status, exported, _ = zaris("kv", "export", "--url", a.url)
    check("export", status, 0)
    got = {base64.b64decode(r["key"]): base64.b64decode(r["value"]) for r in map(json.loads, exported.splitlines())}
    check("every byte", got == rows, True)
    check("the same twice", zaris("kv", "export", "--url", a.url)[1] == exported, True)
    check("import into b", zaris("kv", "import", "--url", b.url, stdin=exported)[0], 0)
    check("the same bytes in another store with other segments", zaris("kv", "export", "--url", b.url)[1] == exported, True)

    # The tags are random, so two stores that were filled apart do not have one digest; counts they have.
    check("digest of one", json.loads(zaris("digest", "--url", a.url, "-o", "json")[1])["count"], len(rows))
    check("digest by slot sums up", sum(r["count"] for r in json.loads(zaris("digest", "--by", "slot", "--url", a.url, "-o", "json")[1])), len(rows))
    check("digest of a prefix", json.loads(zaris("digest", "--prefix", "row:", "--url", a.url, "-o", "json")[1])["count"], 5000)
    check("equal to itself", zaris("digest", "--url", a.url, "--url", a.url)[0], 0)
    check("equal to itself by segment", zaris("digest", "--url", a.url, "--url", a.url, "--by", "segment")[0], 0)
    check("not equal", zaris("digest", "--url", a.url, "--url", b.url)[0], 1)

    check("scan", len(zaris("kv", "scan", "--prefix", "row:", "--keys-only", "--url", a.url, "-o", "ndjson")[1].splitlines()), 5000)
    check("scan with a limit", len(zaris("kv", "scan", "--limit", "7", "--url", a.url)[1].splitlines()), 7)
    check("dry run", "would delete 5,000 keys" in zaris("kv", "del", "--prefix", "row:", "--dry-run", "--url", a.url)[2], True)
    fails(2, "confirmation_needed", "kv", "del", "--prefix", "row:", "--url", a.url)
    check("delete a prefix", zaris("kv", "del", "--prefix", "row:", "--yes", "--url", a.url)[0], 0)
    check("gone", zaris("kv", "scan", "--prefix", "row:", "--url", a.url)[1], b"")
    delete = b'{"key":"%s","deleted":true}\n' % b64(b"empty").encode()
    check("import deletes", zaris("kv", "import", "--url", a.url, stdin=delete)[0], 0)
    fails(1, "not_found", "kv", "get", "empty", "--url", a.url)

    bad = b'{"key":"YQ==","value":"YQ=="}\nnonsense\n{"key":"Yg==","value":"YQ=="}\n'
    err = fails(2, "input_invalid", "kv", "import", "--url", a.url, stdin=bad)
    check("the line is named", "line 2" in err, True)
    large = b'{"key":"YQ==","value":"YQ=="}\n' * 2 + json.dumps({"key": b64(b"large"), "value": b64(b"v" * (4 << 20) + b"v")}).encode() + b"\n"
    err = fails(11, "item_too_large", "kv", "import", "--url", a.url, stdin=large)
    check(f"and of what the region refuses: {err}", "line 3: " in err, True)
    fails(11, "partly_done", "kv", "import", "--keep-going", "--url", a.url, stdin=bad)
    check("what was good is there", zaris("kv", "get", "b", "--url", a.url)[1], b"a")


def status(a, b):
    code, out, _ = zaris("status", "--url", a.url, "--url", b.url, "-o", "json")
    document = json.loads(out)
    check("status", (code, [r["region"] for r in document["regions"]], document["in_step"]), (0, ["a", "b"], False))
    gone = f"zaris://127.0.0.1:{free_port()}"
    check("status of one that is gone", zaris("status", "--url", a.url, "--url", gone)[0], 1)
    check("status of what is gone", zaris("status", "--url", gone)[0], 4)
    check("status of no follower", zaris("status", "--url", a.url, "--admin", f"http://127.0.0.1:{free_port()}")[0], 1)
    check("status of what is no address", zaris("status", "--url", a.url, "--url", "http://x")[0], 11)
    check("a screen", b"region a" in zaris("status", "--url", a.url)[1], True)
    check("followers", zaris("feed", "followers", "--url", a.url, "-o", "json")[:2], (0, b"[]\n"))
    check("ready", zaris("wait", "ready", "--url", a.url, "--url", b.url)[0], 0)


def health(a, empty):
    """Exit 0 is healthy, 1 is not."""
    with FakeFollower(ok=link("ok", "running")) as follower:
        look = ("status", "--url", a.url, "--admin", follower.url)
        for state, healthy in {"running": True, "bootstrap": True, "paused": True, "held": False, "failed": False, "stuck": False, "backoff": False}.items():
            follower.links["x"] = link("x", state, "" if healthy else "large_removal: 3 segments wait for a word")
            code, out, err = zaris(*look)
            check(f"status while a link is {state}", (code, f"not healthy: link x is {state}" in err, b"link x   " + state.encode() in out), (0 if healthy else 1, not healthy, True))
            check(f"healthy while a link is {state}", json.loads(zaris(*look, "-o", "json")[1])["healthy"], healthy)
    # Back without its data, told to hold.
    check("status before", zaris("status", "--url", empty.url)[0], 0)
    zaris("kv", "put", "k", "v", "--url", empty.url)
    check("clean stop", empty.stop(), 0)
    empty.start("live")
    eventually(lambda: zaris("status", "--url", empty.url, "-o", "name")[1] == b"h\n", "the node answers", 10)
    code, _, err = zaris("status", "--url", empty.url)
    check(f"status of a node that holds: {err}", (code, "not healthy: node h1 of region h is holding" in err), (1, True))
    check("accepted", zaris("node", "accept-empty", "--yes", "--url", empty.url)[0], 0)
    check("status of one that serves", zaris("status", "--url", empty.url)[0], 0)


def waits():
    with FakeFollower(x=link("x", "running")) as follower:
        wait, admin = ("wait", "link"), ("--admin", follower.url, "--timeout", "1s")
        err = fails(7, "link_unknown", *wait, "nosuch", "--caught-up", *admin)
        check("no word of success", "caught up" in err, False)
        for fresh_enough in ("1s", "1", "900ms", "1m", "0.9"):
            check(f"staleness {fresh_enough}", zaris(*wait, "x", "--staleness", fresh_enough, *admin)[0], 0)
        fails(8, "timed_out", *wait, "x", "--staleness", "700ms", *admin)
        fails(2, "duration_invalid", *wait, "x", "--staleness", "soon", *admin)
        fails(2, "usage", *wait, "x", "--staleness", "0", *admin)
        check("state", zaris(*wait, "x", "--state", "running", *admin)[0], 0)
        err = fails(2, "usage", *wait, "x", "--state", "bogus", *admin)
        check("the states are named", all(state in err for state in ("running", "bootstrap", "held", "paused", "backoff", "failed", "stuck")), True)


def accepting():
    removal = ["large_removal: 1200 live keys would be removed", "", "large_removal: 34 live keys would be removed"]
    links = {"well": link("well", "running"), "source": link("source", "held", "source_reset: it lost its data"), "target": link("target", "held", "target_changed: another one"),
             "removal": link("removal", "held", "large_removal: 2 segments wait for a word", removal), "both": link("both", "paused", "paused: wait", removal), "paused": link("paused", "paused", "paused")}
    fit = {("accept-source", "source"), ("accept-target", "target"), ("accept-removal", "removal"), ("resume", "paused"), ("resume", "both")}
    with FakeFollower(**links) as follower:
        admin = ("--admin", follower.url)
        for verb, code in {"accept-source": "nothing_to_accept", "accept-target": "nothing_to_accept", "accept-removal": "nothing_to_accept", "resume": "link_not_paused"}.items():
            for name in links:
                if (verb, name) in fit:
                    status, _, err = zaris("link", verb, name, "--dry-run", *admin)
                    check(f"{verb} {name}", (status, f"would {verb} link {name}" in err), (0, True))
                else:
                    fails(9, code, "link", verb, name, "--dry-run", *admin)
        check("nothing was done", follower.posted, [])
        shown = zaris("link", "show", "removal", *admin)[1].decode()
        check(f"what would go: {shown}", "at least 1,234 keys of the target, in 2 segments" in shown, True)
        check("no such line elsewhere", "would remove" in zaris("link", "show", "well", *admin)[1].decode(), False)
        check("JSON is the follower's", json.loads(zaris("link", "show", "removal", "-o", "json", *admin)[1]), links["removal"])


def tls(secure):
    certificates = secure.folder.parent / "certificates"
    port = secure.config["listeners"]["client_tls"]["address"].split(":")[1]
    ca, pair = f"ca={certificates}/ca.crt", f"cert={certificates}/follower.crt&key={certificates}/follower.key"
    base = f"zariss://127.0.0.1:{port}/main"
    url = f"{base}?{ca}&{pair}"
    check("TLS", zaris("kv", "put", "k", "v", "--url", url)[0], 0)
    check("TLS", zaris("kv", "get", "k", "--url", url)[:2], (0, b"v"))
    run_zaris("tls", "dev-ca", "--dir", secure.folder / "other-ca", "--client", "stranger")
    other = secure.folder / "other-ca"
    fails(5, "tls_failed", "kv", "get", "k", "--url", f"{base}?ca={other}/ca.crt&{pair}")
    fails(5, "tls_failed", "kv", "get", "k", "--url", f"{base}?{ca}&cert={other}/stranger.crt&key={other}/stranger.key")
    fails(5, "tls_failed", "kv", "get", "k", "--url", url + "&server_name=somebody.else.example")
    fails(5, "tls_failed", "kv", "get", "k", "--url", f"{base}?{pair}")
    fails(5, "tls_failed", "kv", "get", "k", "--url", f"{base}?{ca}&cert=/nowhere&key=/nowhere")
    err = fails(5, "tls_failed", "kv", "get", "k", "--url", f"{base}?{ca}")
    check("the way on", "cert= and key=" in err, True)
    err = fails(4, "unreachable", "kv", "get", "k", "--url", f"zaris://127.0.0.1:{port}/main")
    check("the way on", "zariss://" in err, True)


def mistakes(a):
    free = f"zaris://127.0.0.1:{free_port()}"
    fails(4, "unreachable", "kv", "get", "k", "--url", free)
    fails(4, "unreachable", "link", "list", "--admin", f"http://127.0.0.1:{free_port()}")
    fails(8, "timed_out", "wait", "ready", "--url", free, "--timeout", "300ms")
    fails(8, "timed_out", "wait", "link", "x", "--caught-up", "--admin", f"http://127.0.0.1:{free_port()}", "--timeout", "300ms")
    fails(4, "unreachable", "kv", "get", "k", "--url", f"zaris://127.0.0.1:{a.admin_port}")
    fails(2, "url_invalid", "kv", "get", "k", "--url", "http://x")
    fails(9, "target_changed", "kv", "get", "k", "--url", a.url + "?cluster_id=0000000000000001")
    fails(9, "target_changed", "kv", "get", "k", "--url", f"zaris://127.0.0.1:{a.client_port}/other")
    check("did you mean", "did you mean 'status'?" in fails(2, "usage", "stauts"), True)
    check("did you mean", "did you mean '--prefix'?" in fails(2, "usage", "kv", "scan", "--prefx", "a"), True)
    check("a page", zaris("explain", "target_changed")[1].startswith(b"# target_changed: "), True)
    check("help", zaris("kv", "--help")[1].startswith(b"read and write keys\n\nExamples:\n"), True)

    # A reader that has seen enough is no error, and Ctrl-C ends at once.
    export = subprocess.Popen([str(BIN / "zaris"), "kv", "export", "--url", a.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    export.stdout.read(1)
    export.stdout.close()
    check("quiet", (export.wait(30) in (0, -signal.SIGPIPE), export.stderr.read()), (True, b""))
    export.stderr.close()
    waiting = subprocess.Popen([str(BIN / "zaris"), "wait", "ready", "--url", free, "--quiet"], stderr=subprocess.DEVNULL)
    # It has its handlers once it sleeps in poll(2) between two questions.
    eventually(lambda: "poll" in pathlib.Path(f"/proc/{waiting.pid}/wchan").read_text() or pathlib.Path(f"/proc/{waiting.pid}/stat").read_text().split()[2] == "S",
               "it waits", 10)
    waiting.send_signal(signal.SIGINT)
    check("Ctrl-C", waiting.wait(10) in (130, -signal.SIGINT), True)


with Bench("cli") as bench:
    a = bench.region("a").start("ready")
    b = bench.region("b", segments=16).start("ready")
    secure = bench.region("c", listeners__client_tls__address=f"127.0.0.1:{free_port()}").start("ready")
    keys(a)
    values(a)
    broken_input(a)
    transfer(a, b)
    status(a, b)
    health(a, bench.region("h", node__on_empty_start="hold").start("ready"))
    waits()
    accepting()
    tls(secure)
    mistakes(a)
print(f"{passed} passed, 0 failed")
