#!/usr/bin/python3
"""Two processes under one node.name: the second ends and says who holds the name, and the region does not notice it.

    taken_name.py

1. While a1 runs, another process starts with a1's configuration on other ports: it ends with exit 3 and `node_name_taken`; a1 loses no connection.
2. a1 is killed and started again at once, while its old lease stands: it comes back.
3. a1 is frozen until its lease is gone, and another process takes the name: a1, awake again, stays and says so once, is not ready, and comes
   back when the other one has stopped.
"""
import argparse
import copy
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402
import region as region_of_several  # noqa: E402

LOST = "zaris_cluster_peer_connections_lost_total"


def another(bench, of, name):
    """A process with the configuration of `of`, on ports of its own."""
    config = copy.deepcopy(of.config)
    ports = {one: processes.free_port() for one in ("client", "cluster", "admin")}
    for listener, port in ports.items():
        config["listeners"][listener]["address"] = f"127.0.0.1:{port}"
    process = processes.Process(name, "zarisd", bench.folder / name, config, ports["admin"])
    process.cluster_port = ports["cluster"]
    bench.members.append(process)
    return process


def registered(node):
    return node.metrics()["zaris_cluster_registered"] == 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.parse_args()
    with processes.Bench("taken-name") as bench:
        region = region_of_several.Region(bench, "a", failover__cooldown="1s").start()
        region.wait_balanced()
        first, others = region.nodes[0], region.nodes[1:]
        lost = {node.name: node.metrics()[LOST] for node in region.nodes}

        second = another(bench, first, "second").start(wait=None)
        status = second.process.wait(60)
        assert status == 3, f"exit {status}: {second.tail()}"
        refused = region.events(second, "node_name_taken")
        assert len(refused) == 1 and refused[0]["level"] == "error", second.tail()
        for word in ("as node a1", "on host ", f"listening on 127.0.0.1:{first.cluster_port}", "running since 20"):
            assert word in refused[0]["text"], refused[0]["text"]
        assert len(region.events(second, "node_name_waits")) == 1, second.tail()
        lines = second.log_path.read_text().count("\n")
        assert lines < 40, f"{lines} lines"
        assert {node.name: node.metrics()[LOST] for node in region.nodes} == lost, "a connection of the region was lost"
        assert registered(first) and region.balanced(), "a1 is not what it was"
        print(f"the second process ended: {refused[0]['text']}", flush=True)

        first.kill()
        first.start(wait="live")
        eventually(lambda: registered(first), "a1 has its name again", 60)
        region.wait_balanced()
        assert not region.events(first, "node_name_taken"), first.tail()
        print("a1 was killed and started at once: it came back", flush=True)

        free = len(region.events(first, "node_name_free"))
        region_of_several.stop(first)
        eventually(lambda: others[0].metrics()['zaris_cluster_members{state="missing"}'] == 1, "a1's lease is gone", 60)
        third = another(bench, first, "third").start(wait="live")
        eventually(lambda: registered(third), "another process has the name", 60)
        region_of_several.cont(first)
        eventually(lambda: first.metrics()["zaris_cluster_name_taken"] == 1, "a1 knows that its name is taken", 60)
        eventually(lambda: f"listening on 127.0.0.1:{third.cluster_port}" in first.json("/v1/status")["region_map"]["name_holder"], "a1 says who has it", 10)
        eventually(lambda: not first.probe("/readyz"), "a1 is not ready", 30)
        eventually(lambda: third.metrics()["zaris_cluster_peers_connected"] == 2, "the other one speaks for the name", 60)
        assert third.stop(60) == 0, third.tail()
        eventually(lambda: registered(first), "a1 has its name again", 60)
        eventually(lambda: first.probe("/readyz"), "a1 is ready again", 60)
        region.wait_balanced()
        assert len(region.events(first, "node_name_lost")) == 1, first.tail()
        assert len(region.events(first, "node_name_free")) == free + 1, first.tail()
        print("a1 was frozen and lost its name: it stayed, and came back when the name was free")
    print("1 passed, 0 failed")


main()
