#!/usr/bin/python3
"""What an operator sees and does of a region of three nodes: `status`, `node list|show|drain|accept-empty`, `store show`, metrics, /v1/status."""
import base64
import json
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness.processes import BIN, Bench, Process, caught_up, free_port  # noqa: E402
from harness.waiting import eventually  # noqa: E402
from region import Region  # noqa: E402

passed = 0


def check(what, got, wanted):
    global passed
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, not {wanted!r}")
    passed += 1


def run(*arguments):
    return subprocess.run([str(BIN / "zaris"), *map(str, arguments)], capture_output=True, text=True, timeout=120)


def zaris(*arguments, status=0):
    done = run(*arguments)
    check(f"status of zaris {arguments}: {done.stderr}", done.returncode, status)
    return done


def with_feeds(region):
    """Each node gets a feed of its own for the gateway; every node's roster names all of them."""
    ports = {node.name: free_port() for node in region.nodes}
    for node in region.nodes:
        node.config["listeners"]["feed"] = {"address": f"127.0.0.1:{ports[node.name]}"}
        node.config["roster"] = [{**row, "feed_port": ports[row["name"]]} for row in node.config["roster"]]


def front_door(bench, region, target):
    """A gateway before the region, and a follower with link `l` that reads it and writes into `target`."""
    run("tls", "dev-ca", "--dir", bench.certificates, "--server", "gateway")
    ca = bench.certificates
    feed, admin = free_port(), free_port()
    gateway = Process("gateway", "zaris-gateway", bench.folder / "gateway", {
        "upstream": {"seeds": [f"zaris://127.0.0.1:{n.client_port}" for n in region.nodes]},
        "tls": {"cert": str(ca / "gateway.crt"), "key": str(ca / "gateway.key"), "ca": str(ca / "ca.crt")},
        "listeners": {"feed": {"address": f"127.0.0.1:{feed}"}, "admin": {"address": f"127.0.0.1:{admin}"}},
        "logging": {"level": "info", "format": "json"}}, admin)
    gateway.feed_port = feed
    bench.members.append(gateway)
    gateway.start("ready")
    return gateway, bench.follower(target, [bench.link("l", gateway)]).start()


def url_of(node):
    return f"zaris://127.0.0.1:{node.client_port}/main"


with Bench("region-operators") as bench:
    region = Region(bench, "a", factor=3, segments=256, node__on_empty_start="hold", feed={"access": [{"subject": "gateway", "prefixes": [""]}]})
    with_feeds(region)
    region.start()
    everybody = ("--url", region.url)
    eventually(lambda: run("status", *everybody).returncode == 0, "healthy", 60)
    zaris("kv", "put", "greeting", "hello", *everybody)

    # An export goes over all owners and leaves nothing out.
    rows = "".join(json.dumps({"key": base64.b64encode(b"row:%d" % n).decode(), "value": ""}) + "\n" for n in range(3000))
    subprocess.run([str(BIN / "zaris"), "kv", "import", *everybody], input=rows, text=True, check=True, capture_output=True, timeout=120)
    check("exported", len(zaris("kv", "export", *everybody).stdout.splitlines()), 3001)
    zaris("kv", "del", "--prefix", "row:", "--yes", *everybody)

    # Any node as seed says the same of the region.
    views = [json.loads(zaris("status", "--url", url_of(node), "-o", "json").stdout) for node in region.nodes]
    for view in views:
        check("healthy", (view["healthy"], view["faults"], len(view["regions"])), (True, [], 1))
        cluster = view["regions"][0]["cluster"]
        check("all of it", (cluster["nodes_up"], cluster["nodes_all"], cluster["converged"], cluster["etcd_answers"]), (3, 3, True, True))
        check("one leader for all", cluster["leader"], views[0]["regions"][0]["cluster"]["leader"])
        check("keys of the whole region", view["regions"][0]["live_keys"], 1)
        check("a digest of the whole region", view["regions"][0]["digest"], views[0]["regions"][0]["digest"])
    screen = zaris("status", *everybody).stdout
    for word in ("healthy", "3 of 3 nodes up", "converged", "etcd answers", "3 healthy"):
        check(f"the screen has {word}: {screen}", word in screen, True)

    nodes = json.loads(zaris("node", "list", *everybody, "-o", "json").stdout)
    check("nodes", [(n["name"], n["state"], n["answers"], n["owns"], n["replica_of"]) for n in nodes], [(f"a{i}", "serving", True, 1, 2) for i in (1, 2, 3)])
    check("one leads", sum(n["leader"] for n in nodes), 1)
    check("clocks of one machine", [abs(n["clock_skew_seconds"]) < 0.2 for n in nodes], [True] * 3)
    check("a clock for people", "+0.0" in zaris("node", "show", "a2", *everybody).stdout or "-0.0" in zaris("node", "show", "a2", *everybody).stdout, True)
    check("names", zaris("node", "list", *everybody, "-o", "name").stdout, "a1\na2\na3\n")
    store = json.loads(zaris("store", "show", *everybody, "-o", "json").stdout)
    check("partitions", [(p["owner"], p["primary"], p["state"], p["serves_by"], len(p["synchronised"])) for p in store["partitions"]], [(f"a{i}", f"a{i}", "healthy", "lease", 2) for i in (1, 2, 3)])
    check("segments", (sum(p["segment_count"] for p in store["partitions"]), store["replication"]["factor"]), (256, 3))
    shown = json.loads(zaris("node", "show", "a2", *everybody, "-o", "json").stdout)
    check("its own word", [(p["owner"], p["role"]) for p in shown["partitions"]], [("a1", "replica"), ("a2", "serving"), ("a3", "replica")])
    zaris("node", "show", "a2", *everybody)
    check("who is not in the roster", "not_found" in zaris("node", "show", "a9", *everybody, status=1).stderr, True)
    copies = json.loads(zaris("store", "verify", "--timeout", "30s", "-o", "json", *everybody).stdout)
    check("two copies beside the owner's of everything", [copies[k] for k in ("equal", "segments", "copies", "keys")], [True, 256, 512, 1])
    metrics = region.nodes[0].metrics()
    check("metrics", [metrics[m] for m in ('zaris_cluster_members{state="registered"}', 'zaris_cluster_partitions{state="healthy"}', "zaris_partitions_owned", "zaris_etcd_up")], [3, 3, 1, 1])
    check("readiness names its checks", region.nodes[0].http("/readyz?verbose").count("registered") > 0, True)

    # A follower's pins are shown and dropped at every node, whichever is asked; what is held for replicas is left alone.
    def listed(*more):
        return json.loads(zaris("feed", "followers", "-o", "json", *more).stdout)
    check("no follower", listed(*everybody), [])
    check("nothing is pinned by followers", json.loads(zaris("status", *everybody, "-o", "json").stdout)["regions"][0]["pins"], 0)
    replicas = listed("--replicas", "--url", url_of(region.nodes[1]))
    check("each node holds for two replicas", sorted((p["node"], p["link"]) for p in replicas), sorted((f"a{i}", f"a{j}") for i in (1, 2, 3) for j in (1, 2, 3) if i != j))
    zaris("feed", "drop", "a2", *everybody, "--yes", status=1)
    # An alert about a reader that is away must not speak of a replica.
    series = region.nodes[0].metrics()
    check("no follower's pin", [k for k in series if k.startswith("zaris_pin_")] + [series[f'zaris_pins{{state="{s}"}}'] for s in ("attached", "away", "lost")], [0, 0, 0])
    target = bench.region("t", segments=256).start("ready")
    gateway, follower = front_door(bench, region, target)
    caught_up(follower, "l", 60)
    eventually(lambda: [(p["node"], p["principal"], p["link"], p["attached"]) for p in listed(*everybody)] == [(f"a{i}", "follower", "l", True) for i in (1, 2, 3)], "a row per node", 30)
    check("one follower", json.loads(zaris("status", *everybody, "-o", "json").stdout)["regions"][0]["pins"], 1)
    follower.stop()
    eventually(lambda: len(listed(*everybody)) == 3 and not any(p["attached"] for p in listed(*everybody)), "it is away, and its place is kept", 30)
    check("at 3 of 3", "at 3 of 3 nodes" in zaris("feed", "drop", "l", "--url", url_of(region.nodes[2]), "--dry-run").stderr, True)
    check("dropped", "dropped 3 of 3" in zaris("feed", "drop", "l", "--url", url_of(region.nodes[2]), "--yes").stderr, True)
    eventually(lambda: listed(*everybody) == [], "and at no node comes back", 30)
    ends = [v for k, v in gateway.metrics().items() if k.startswith("zaris_feed_stream_ends_total")]
    check("every reason is there", len(ends), 16)
    gateway.stop()
    target.kill()

    # A drain: everything goes, nothing comes back, until it is taken back.
    zaris("node", "drain", "a9", *everybody, "--yes", status=7)
    zaris("node", "drain", "a2", *everybody, "--no-input", status=2)
    check("a dry run", "would be" in zaris("node", "drain", "a2", *everybody, "--dry-run").stderr, True)
    check("changes nothing", json.loads(zaris("node", "show", "a2", *everybody, "-o", "json").stdout)["draining"], False)
    zaris("node", "drain", "a2", "--url", url_of(region.nodes[2]), "--wait", "--yes")
    row = json.loads(zaris("node", "show", "a2", *everybody, "-o", "json").stdout)
    check("drained", (row["owns"], row["draining"]), (0, True))
    check("said twice", "already" in zaris("node", "drain", "a2", *everybody, "--yes").stderr, True)
    eventually(lambda: run("status", *everybody).returncode == 0, "healthy with a drained node", 60)

    # The wish outlives the process: a clean stop and a new start change nothing of it.
    region.nodes[1].stop()
    listed = zaris("node", "list", *everybody, "-o", "json", status=1)
    check("a node that is gone is in its row", json.loads(listed.stdout)[1]["state"], "silent")
    check("and is named", "node a2" in listed.stderr and "does not answer" in listed.stderr, True)
    bad = zaris("status", *everybody, status=1)
    check("status names it", "a2" in bad.stderr and "NOT HEALTHY" in bad.stdout and "2 of 3 nodes up" in bad.stdout, True)
    zaris("store", "show", *everybody, status=1)
    check("equal is not said of a node that is gone", "node a2 does not answer" in zaris("store", "verify", *everybody, status=1).stderr, True)
    region.nodes[1].start("ready")
    eventually(lambda: run("status", *everybody).returncode == 0, "healthy again", 60)
    row = json.loads(zaris("node", "show", "a2", *everybody, "-o", "json").stdout)
    check("drained still", (row["owns"], row["draining"]), (0, True))
    zaris("node", "drain", "a2", *everybody, "--undo")
    check("taken back twice", "not being drained" in zaris("node", "drain", "a2", *everybody, "--undo").stderr, True)
    eventually(lambda: json.loads(run("node", "show", "a2", *everybody, "-o", "json").stdout)["owns"] == 1, "its partition is given back", 90)

    partition = [region.nodes[0].metrics()[f'{m}{{segments="0-85"}}'] for m in ("zaris_partition_serving", "zaris_partition_copies_in_step")]
    check("a partition's metrics", partition, [1, 3])
    lag = {k: v for k, v in region.nodes[0].metrics().items() if k.startswith("zaris_replication_lag_seconds")}
    check("a replica's", sorted(lag), ['zaris_replication_lag_seconds{replica="a2"}', 'zaris_replication_lag_seconds{replica="a3"}'])

    # Without etcd it serves on, and says what is wrong.
    eventually(lambda: run("status", *everybody).returncode == 0, "healthy before etcd goes", 60)
    region.etcd.signal(signal.SIGSTOP)
    eventually(lambda: "etcd does not answer" in run("status", *everybody).stderr, "status says that etcd is silent", 60)
    zaris("kv", "put", "greeting", "without etcd", *everybody)
    check("whether a drain was written is not known", run("node", "drain", "a1", *everybody, "--yes", "--timeout", "20s").returncode, 8)
    region.etcd.signal(signal.SIGCONT)
    eventually(lambda: run("status", *everybody).returncode == 0, "healthy with etcd", 60)
    zaris("node", "drain", "a1", *everybody, "--undo")

    # All copies gone: unavailable, loudly, until an operator accepts the loss.
    # The drain may have begun when etcd woke: while its hand-over or the way back is under way, the answer is to ask again.
    eventually(lambda: "nothing would change" in run("node", "accept-empty", *everybody, "--yes").stderr, "there is nothing to accept", 60)
    for node in region.nodes:
        node.kill()
    check("nobody answers", zaris("status", *everybody, status=4).stdout, "")
    for node in region.nodes:
        node.start()
    def lost():
        done = run("node", "accept-empty", *everybody, "--dry-run", "-o", "json")
        return done.returncode == 0 and len(json.loads(done.stdout)) == 3
    eventually(lost, "three partitions are nobody's", 90)
    check("not healthy", "unavailable" in zaris("status", *everybody, status=1).stdout, True)
    check("no answer out of emptiness", run("kv", "get", "greeting", *everybody, "--timeout", "2s").returncode in (7, 8), True)
    zaris("node", "accept-empty", *everybody, "--yes")
    eventually(lambda: run("status", *everybody).returncode == 0, "healthy, and empty", 90)
    zaris("kv", "get", "greeting", *everybody, status=1)

    # A process of its own: the same verbs, one node.
    alone = bench.region("s").start("ready")
    check("one node", [n["name"] for n in json.loads(zaris("node", "list", "--url", alone.url, "-o", "json").stdout)], ["s1"])
    check("one partition", [p["segments"] for p in json.loads(zaris("store", "show", "--url", alone.url, "-o", "json").stdout)["partitions"]], ["0-255"])
    check("nothing to compare", zaris("store", "verify", "--url", alone.url).stdout.startswith("one copy of everything"), True)
    check("no drain", "unsupported" in zaris("node", "drain", "s1", "--url", alone.url, "--yes", status=7).stderr, True)
    zaris("node", "list", "--url", f"zaris://127.0.0.1:{free_port()}/main", status=4)

print(f"{passed} passed, 0 failed")
