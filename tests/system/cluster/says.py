#!/usr/bin/python3
"""What a region of two groups says when all who may hold a partition are gone, and what comes of an operator's word; and that an owner that
dies while etcd is away is missed.

    says.py [--seed S]

Four nodes, two copies of everything: two of them hold each other's partitions and nobody else's.
"""
import argparse
import json
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402
import region as region_of_several  # noqa: E402


def zaris(region, *arguments, check=False):
    return processes.run_zaris(*arguments, "--url", region.url, check=check)


def partitions(region):
    return json.loads(zaris(region, "store", "show", "-o", "json").stdout)["partitions"]


def groups(region):
    """Two nodes that hold each other's partitions, and the other two."""
    row = partitions(region)[0]
    one = {row["primary"], *row["replicas"]}
    return [n for n in region.nodes if n.name in one], [n for n in region.nodes if n.name not in one]


def accepted_rows(region):
    return int(region.etcd.ask("kv/range", {"key": encoded(f"/zaris/{region.name}/main/accepted/"), "range_end": encoded(f"/zaris/{region.name}/main/accepted0"),
                                            "count_only": True}).get("count", 0))


def encoded(text):
    import base64
    return base64.b64encode(text.encode()).decode()


def lost_group(region, gone, here):
    names = [node.name for node in gone]
    for node in gone:
        node.kill()
    eventually(lambda: [p["state"] for p in partitions(region) if p["primary"] in names] == ["unavailable"] * 2, "their partitions are unavailable", 60)
    eventually(lambda: "not served" in here[0].readiness()[2].get("partitions", ""), "the readiness of a node that lives says so", 10)
    assert all(node.readiness()[0] for node in here), "and is not lost by it"

    said = zaris(region, "node", "accept-empty", "--yes")
    assert said.returncode == 0 and said.stderr.count("nobody who lives may begin them: the wish waits for") == 2 and "--undo" in said.stderr, said.stderr
    assert all(name in said.stderr for name in names), said.stderr
    eventually(lambda: "accepted as lost" in zaris(region, "status").stdout, "status shows the wish", 10)
    assert "accepted as lost" in zaris(region, "node", "list").stderr
    assert here[0].metrics()["zaris_cluster_partitions_accepted"] == 2
    assert accepted_rows(region) == 2

    assert "would be taken back" in zaris(region, "node", "accept-empty", "--undo", "--dry-run").stderr and accepted_rows(region) == 2
    assert "taken back" in zaris(region, "node", "accept-empty", "--undo").stderr and accepted_rows(region) == 0
    assert "nothing that was accepted waits" in zaris(region, "node", "accept-empty", "--undo").stderr
    gone[0].start("live")
    eventually(lambda: any(n["name"] == gone[0].name and n["registered"] for n in json.loads(zaris(region, "node", "list", "-o", "json").stdout)), "one of them comes back", 30)
    eventually(lambda: all("accept-empty lets it begin anew" in p["reason"] for p in partitions(region) if p["primary"] in names), "and begins nothing on its own word", 60)
    said = zaris(region, "node", "accept-empty", "--yes")
    assert f"{gone[0].name} takes them with what it holds" in said.stderr and f"not waited for: {gone[1].name}" in said.stderr, said.stderr
    eventually(lambda: all(p["owner"] == gone[0].name and p["role"] == "serving" for p in partitions(region) if p["primary"] in names), "now it does", 60)
    eventually(lambda: accepted_rows(region) == 0, "and the wish is gone", 10)
    gone[1].start("ready")
    # What another node shows of it is a moment old.
    eventually(lambda: gone[1].name in str([p["synchronised"] for p in partitions(region)]), "a node is ready once it has its copies", 5)
    region.wait_balanced()
    print("a lost group: said who is waited for, taken back, fulfilled")


def drain_says(region, leaves, other):
    """The other copy is frozen: a drain that runs out of time says who is missing."""
    other.kill()
    eventually(lambda: all(p["owner"] == leaves.name and p["synchronised"] == [] for p in partitions(region) if leaves.name in (p["primary"], *p["replicas"])), "it has all alone", 60)
    told = zaris(region, "node", "drain", leaves.name, "--wait", "--yes", "--timeout", "3s")
    assert told.returncode == 8 and f"nobody can take it: {other.name} is not there" in told.stderr and "segments" in told.stderr, told.stderr
    rows = [line.split() for line in zaris(region, "store", "show").stdout.splitlines() if f" {leaves.name} " in line]
    assert all(row[3:5] == ["none", other.name] for row in rows), rows
    zaris(region, "node", "drain", leaves.name, "--undo", check=True)
    other.start("ready")
    region.wait_balanced()
    print("a drain that waits: said for whom")


def owner_gone_without_etcd(region, victim, witness):
    region.etcd.signal(signal.SIGSTOP)
    try:
        eventually(lambda: "etcd does not answer" in zaris(region, "status").stderr, "etcd is away", 30)
        assert "is not heard" not in zaris(region, "status").stderr
        victim.kill()
        shown = eventually(lambda: (s := zaris(region, "status")).returncode == 1 and f"their owner {victim.name} is not heard" in s.stderr and s, "status misses the owner", 30)
        assert "NOT HEALTHY" in shown.stdout and "not_heard" in shown.stdout, shown.stdout
        # Nobody takes the dead one out of a set while etcd is away: whoever counts it as its replica is granted no more, and says so.
        shown = eventually(lambda: (s := zaris(region, "status")) and "2 not_heard" in s.stdout and s, "its partner says that it serves no more", 30)
        assert "neither etcd nor a replica confirms" in shown.stderr, shown.stderr
        waited = zaris(region, "wait", "ready", "--timeout", "2s")
        assert waited.returncode == 8 and "partitions are not served" in waited.stderr, waited
        own = [p["state"] for p in json.loads(witness.http("/v1/status"))["region_map"]["partitions"] if p["owner"] == victim.name]
        assert own == ["not_heard"], own
        assert witness.metrics()['zaris_cluster_partitions{state="not_heard"}'] == 1
        assert "is not heard" in witness.readiness()[2]["partitions"]
        assert witness.readiness()[0], witness.readiness()
    finally:
        region.etcd.signal(signal.SIGCONT)
    eventually(lambda: zaris(region, "status").stderr.count("is not heard") == 0, "with etcd another takes it", 60)
    victim.start("live")
    zaris(region, "wait", "ready", "--timeout", "60s", check=True)
    region.wait_balanced()
    print("an owner that died while etcd was away: missed")


def ready_means_in_step(region, node):
    """Asked of all nodes right after one was started: it is not registered yet, and has nothing."""
    node.kill()
    eventually(lambda: all(p["owner"] not in ("", node.name) for p in partitions(region)), "others own everything", 60)
    told = zaris(region, "wait", "ready", "--timeout", "2s")
    assert told.returncode == 8 and f"node {node.name} is not there" in told.stderr, told.stderr
    node.start("live")
    zaris(region, "wait", "ready", "--timeout", "60s", check=True)
    rows = partitions(region)
    assert all(node.name in (p["owner"], *p["synchronised"]) for p in rows if node.name in (p["primary"], *p["replicas"])), rows
    region.wait_balanced()
    print("ready: every node is there and has its copies")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.parse_args()
    with processes.Bench("says") as bench:
        region = region_of_several.Region(bench, "a", size=4, factor=2, failover__cooldown="1s").start()
        one, two = groups(region)
        assert len(one) == len(two) == 2, [n.name for n in one]
        zaris(region, "kv", "put", "k", "v", check=True)
        owner_gone_without_etcd(region, one[0], two[0])
        ready_means_in_step(region, one[1])
        drain_says(region, one[0], one[1])
        lost_group(region, two, one)
    print("4 passed, 0 failed")


main()
