#!/usr/bin/python3
"""`zaris link`, `wait link`, `feed followers|drop` and `replay` against real regions and a real follower."""
import base64
import json
import pathlib
import random
import subprocess
import sys
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.processes import BIN, Bench, assert_equal  # noqa: E402

passed = 0


def check(what, got, wanted):
    global passed
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, not {wanted!r}")
    passed += 1


def zaris(*arguments, status=0, stdin=None):
    run = subprocess.run([str(BIN / "zaris"), *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=120)
    check(f"status of zaris {arguments}: {run.stderr}", run.returncode, status)
    return run


def b64(text):
    return base64.b64encode(text.encode()).decode()


def load(region, prefix, count):
    lines = "".join(json.dumps({"key": b64(f"{prefix}{n}"), "value": b64("v" * (n % 100))}) + "\n" for n in range(count))
    zaris("kv", "import", "--url", region.url, stdin=lines)


with Bench("cli-links") as bench:
    a, b, c = (bench.region(name).start("ready") for name in "abc")
    load(a, "row:", 5000)
    follower = bench.follower(b, [bench.link("a-to-b", a)]).start()
    admin = ("--admin", follower.admin_url)

    zaris("wait", "link", "a-to-b", "--caught-up", "--timeout", "60s", *admin)
    assert_equal(a, b, bench.folder)
    link = json.loads(zaris("link", "show", "a-to-b", "-o", "json", *admin).stdout)
    for path in ("state", "reason", "scope_id", "staleness_seconds", "backlog_revisions", "backlog_bytes", "bootstraps_total", "conflicts_total"):
        check(f"link show has {path}", path in link, True)
    check("source and target", (len(link["source"]["cluster_id"]), len(link["target"]["cluster_id"])), (16, 16))
    check("bootstrap", set(link["bootstrap"]) >= {"segments_done", "segments_total", "records", "eta_seconds"}, True)
    check("segments", (len(link["segments"]), set(link["segments"][0]) >= {"id", "phase", "position", "head", "floor", "mark", "cursor"}), (256, True))
    check("list", zaris("link", "list", "-o", "name", *admin).stdout, "a-to-b\n")
    check("in step", json.loads(zaris("status", "--url", a.url, "--url", b.url, *admin, "-o", "json").stdout)["in_step"], True)
    zaris("digest", "--url", a.url, "--url", b.url)
    pins = json.loads(zaris("feed", "followers", "--url", a.url, "-o", "json").stdout)
    check("a pin", [(p["link"], p["attached"]) for p in pins], [("a-to-b", True)])

    # What is said in a way that is not understood is refused, and nothing is done.
    def post(target, body):
        request = urllib.request.Request(f"{admin[1]}{target}", method="POST", data=body, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read())
    for target, body in (("/v1/links/a-to-b/pause", b"{reason"), ("/v1/links/a-to-b/pause", b'{"reason":"x"}'), ("/v1/links/a-to-b/pause?raeson=x", b""), ("/v1/links/a-to-b/resume?reason=x", b"")):
        status, answer = post(target, body)
        check(f"refused: {target} {body}", (status, answer["code"]), (400, "input_invalid"))
    check("not paused by it", json.loads(zaris("link", "show", "a-to-b", "-o", "json", *admin).stdout)["state"], "running")

    # Paused it keeps its place, and says so; what is written meanwhile comes afterwards.
    zaris("link", "pause", "a-to-b", "--reason", "maintenance", *admin)
    zaris("wait", "link", "a-to-b", "--state", "paused", *admin)
    load(a, "later:", 500)
    run = zaris("wait", "link", "a-to-b", "--caught-up", "--timeout", "3s", *admin, status=8)
    check(f"why not: {run.stderr}", "paused" in run.stderr, True)
    zaris("link", "resume", "a-to-b", *admin)
    zaris("wait", "link", "a-to-b", "--caught-up", "--timeout", "60s", *admin)
    assert_equal(a, b, bench.folder)

    # Errors of the follower come through with their codes.
    run = zaris("link", "show", "nope", *admin, status=7)
    check("code", run.stderr.startswith("zaris: link_unknown: "), True)
    zaris("link", "resume", "nope", *admin, status=7)
    zaris("wait", "link", "nope", "--caught-up", *admin, status=7)
    zaris("link", "accept-source", "a-to-b", *admin, status=2)  # asks first

    zaris("feed", "drop", "nope", "--url", a.url, status=1)
    zaris("feed", "drop", "a-to-b", "--url", a.url, status=2)
    zaris("feed", "drop", "a-to-b", "--url", a.url, "--dry-run")

    # The feed's own verbs: no head over nothing, and errors of one form.
    feed, files = f"zariss://127.0.0.1:{a.feed_port}", bench.certificates
    pair = ("--ca", files / "ca.crt", "--cert", files / "reader.crt", "--key", files / "reader.key")
    run = zaris("feed", "tail", "--feed", feed, *pair, "--since", "nonsense", status=2)
    check(f"no head: {run.stderr}", (run.stdout, run.stderr.startswith("zaris-feed: ")), ("", True))
    run = zaris("feed", "tail", "--feed", feed, *pair, "--since", "oldest", "--count", "2")
    check("one head", [line.split()[0] == "TIME" for line in run.stdout.splitlines()], [True, False, False])
    zaris("feed", "tail", "--feed", feed, *pair, "--count", "-1", status=2)
    zaris("kv", "scan", "--url", a.url, "--limit", "-1", status=2)
    for words in (("tail", "--since", "oldest", "--count", "2"), ("segments",)):  # what could not be written is no success
        with open("/dev/full", "w") as full:
            run = subprocess.run([BIN / "zaris-feed", *words, "--feed", feed, *pair], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30)
        check(f"{words} into a full disk", (run.returncode, "could not be written" in run.stderr), (3, True))
    run = zaris("feed", "tail", "-o", "json", status=2)
    check(f"the formats: {run.stderr}", (run.stderr.startswith("zaris-feed: usage: "), "table, ndjson" in run.stderr, "\n  try: zaris-feed tail --help\n" in run.stderr), (True, True, True))
    run = zaris("feed", "segments", "-o", "name", status=2)
    check(f"the formats: {run.stderr}", (run.stderr.startswith("zaris-feed: usage: "), "table, json, ndjson" in run.stderr), (True, True))

    # A copy of A in an empty region, and nothing left behind.
    zaris("replay", "--from", feed, "--to", c.url, *pair, "--timeout", "60s", "--compare", a.url)
    assert_equal(a, c, bench.folder)
    check("no link left", json.loads(zaris("status", "--url", c.url, "-o", "json").stdout)["regions"][0]["links"], 0)
    check("no pin left", [p["link"] for p in json.loads(zaris("feed", "followers", "--url", a.url, "-o", "json").stdout)], ["a-to-b"])
    run = zaris("replay", "--from", feed, "--to", c.url, *pair, status=9)
    check("not over data", run.stderr.startswith("zaris: target_not_empty: "), True)

    # One that broke off is finished with the scope that it has, or given up.
    other = bench.region("broken-off").start("ready")
    begun = bench.follower(other, [bench.link("replay.rr", a)], name="rr").start()
    zaris("wait", "link", "replay.rr", "--caught-up", "--timeout", "60s", "--admin", begun.admin_url)
    begun.stop()
    run = zaris("replay", "--from", feed, "--to", other.url, *pair, "--name", "rr", "--prefix", "x:", status=9)
    check(f"another scope: {run.stderr}", (run.stderr.startswith("zaris: scope_mismatch: "), "zaris link drop replay.rr --url" in run.stderr), (True, True))
    zaris("replay", "--from", feed, "--to", other.url, *pair, "--name", "rr", "--timeout", "60s", "--compare", a.url)
    assert_equal(a, other, bench.folder)

    # A follower's link is never taken for a replay that broke off, whatever the replay is called.
    run = zaris("replay", "--from", feed, "--to", b.url, *pair, "--name", "a-to-b", status=9)
    check("not over a follower's link", run.stderr.startswith("zaris: target_not_empty: "), True)

    # Nor without --compare, where an address of the source is known; another region's pins stay, whatever their names.
    def pins():
        return [p["link"] for p in json.loads(zaris("feed", "followers", "--url", a.url, "-o", "json").stdout)]

    d, e = bench.region("d").start("ready"), bench.region("e").start("ready")
    run = zaris("replay", "--from", feed, "--to", d.url, *pair, "--timeout", "60s", "--url", b.url, "--url", a.url)
    check(f"no pin left: {run.stderr}", (pins(), "pin" in run.stderr), (["a-to-b"], False))
    run = zaris("replay", "--from", feed, "--to", e.url, *pair, "--timeout", "60s", "--url", b.url)
    check(f"a pin left, and said: {run.stderr}", (sorted(pins()), "zaris feed drop replay.copy --url" in run.stderr), (["a-to-b", "replay.copy"], True))
    assert_equal(a, e, bench.folder)
    zaris("feed", "drop", "replay.copy", "--url", a.url, "--yes")
    check("as it said", pins(), ["a-to-b"])

    # With the default ports the feed's address is enough. An address of loopback's that nobody else has taken.
    host = "127." + ".".join(str(random.randrange(1, 255)) for _ in range(3))
    zaris("tls", "dev-ca", "--dir", files, "--server", "usual", "--name", host)
    usual = bench.region("g", listeners__client__address=f"{host}:7861", listeners__feed__address=f"{host}:7871", tls__cert=str(files / "usual.crt"), tls__key=str(files / "usual.key"))
    usual.url, g = f"zaris://{host}/main", bench.region("h").start("ready")
    usual.start("ready")
    load(usual, "row:", 100)
    run = zaris("replay", "--from", f"zariss://{host}:7871", "--to", g.url, *pair, "--timeout", "60s")
    check(f"no pin left: {run.stderr}", (zaris("feed", "followers", "--url", usual.url, "-o", "json").stdout, "pin" in run.stderr), ("[]\n", False))
    assert_equal(usual, g, bench.folder)

    # The link ends; its marks are taken out of the target, and B is on its own.
    check("clean stop", follower.stop(), 0)
    run = zaris("link", "drop", "nosuch", "--url", b.url, "--yes", status=1)
    check(f"whose links: {run.stderr}", ("registered there: a-to-b" in run.stderr, "zaris link list" in run.stderr), (True, False))
    run = zaris("link", "drop-scope", "nosuch", "--url", a.url, status=1)
    check(f"whose links: {run.stderr}", ("no link is registered" in run.stderr, "zaris link list" in run.stderr), (True, False))
    zaris("link", "drop", "a-to-b", "--url", b.url, "--dry-run")
    zaris("link", "drop", "a-to-b", "--url", b.url, "--yes")
    check("B is active", json.loads(zaris("status", "--url", b.url, "-o", "json").stdout)["regions"][0]["role"], "active")
print(f"{passed} passed, 0 failed")
