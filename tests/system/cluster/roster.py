#!/usr/bin/python3
"""The roster changes by the steps of the how-to, under load: a node goes to another place, one more comes, one goes for good. Nothing acknowledged is lost, and
every partition ends with all of its copies on the nodes that are left."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402
from load import Load  # noqa: E402
import region as region_of_several  # noqa: E402


class Change:
    def __init__(self, region, nodes):
        self.region, self.nodes, self.url = region, nodes, "zaris://" + ",".join(f"{node.host}:{node.client_port}" for node in nodes) + "/main"

    def ready(self, node):
        eventually(lambda: node.probe("/readyz"), f"{node.name} is ready", 60)

    def write(self, roster):
        for node in self.nodes:
            node.config["roster"] = roster

    def restart(self, nodes):
        for node in nodes:
            node.stop(60)
            node.start("live")
            self.ready(node)

    def drain(self, node, *more):
        processes.run_zaris("node", "drain", node.name, *more, "--url", self.url, "--yes")

    def another_place(self, moved):
        self.drain(moved, "--wait")
        moved.stop(60)
        moved.client_port, moved.cluster_port = processes.free_port(), processes.free_port()
        self.write([{**row, "client_port": moved.client_port, "cluster_port": moved.cluster_port} if row["name"] == moved.name else row for row in moved.config["roster"]])
        self.restart([node for node in self.nodes if node is not moved])
        moved.config["listeners"]["client"]["address"] = f"{moved.host}:{moved.client_port}"
        moved.config["listeners"]["cluster"]["address"] = f"{moved.host}:{moved.cluster_port}"
        moved.start("live")
        self.drain(moved, "--undo")
        self.ready(moved)

    def one_more(self, node, roster):
        self.write(roster)
        node.config["roster"] = roster
        self.restart(self.nodes)
        node.start("live")
        self.nodes.append(node)
        self.ready(node)

    def one_less(self, gone):
        self.drain(gone, "--wait")
        gone.stop(60)
        self.nodes.remove(gone)
        self.write([row for row in gone.config["roster"] if row["name"] != gone.name])
        self.restart(self.nodes)


def main():
    with processes.Bench("roster") as bench:
        region = region_of_several.Region(bench, "a", size=4)
        roster = region.nodes[0].config["roster"]
        later = region.nodes[3]
        change = Change(region, region.nodes[:3])
        change.write(roster[:3])
        region.etcd.start()
        for node in change.nodes:
            node.start("live")
        for node in change.nodes:
            change.ready(node)
        load = Load(change.url, bench.folder / "ledger", pause_ms=20)
        load.line()

        change.another_place(region.nodes[1])
        change.one_more(later, [*region.nodes[0].config["roster"], roster[3]])
        gone = region.nodes[0]
        change.one_less(gone)

        def members():
            state = region.state()
            return state and [[p["primary"], *p["replicas"]] for p in state["partitions"]]

        eventually(lambda: all(gone.name not in row and len(row) == 3 for row in members() or [[]]), "every partition has three places", 60)
        region.wait_healthy()
        eventually(lambda: processes.run_zaris("status", "--url", change.url, check=False).returncode == 0, "the region is well", 60)

        # A setting that all should have alike, changed at one node first.
        odd = change.nodes[0]
        odd.config["replication"]["ack"] = "replica"
        change.restart([odd])
        eventually(lambda: f"settings differ: node {odd.name} against" in processes.run_zaris("status", "--url", f"zaris://127.0.0.1:{change.nodes[1].client_port}/main", check=False).stdout
                   or f"against node {odd.name}: replication.ack" in processes.run_zaris("status", "--url", change.url, check=False).stdout, "status says so", 30)
        assert change.nodes[1].metrics()["zaris_cluster_settings_differ"] == 1 and odd.metrics()["zaris_cluster_settings_differ"] == 2
        for node in change.nodes[1:]:
            node.config["replication"]["ack"] = "replica"
        change.restart(change.nodes[1:])
        eventually(lambda: all(node.metrics()["zaris_cluster_settings_differ"] == 0 for node in change.nodes), "nothing differs any more", 30)

        assert load.line()["acknowledged"] > 0
        load.end()
        found = region_of_several.verify(change.url, load.file)
        assert found["missing"] == 0, found
        copies = json.loads(processes.run_zaris("store", "verify", "--url", change.url, "--timeout", "30s", "-o", "json").stdout)
        assert copies["equal"], copies
    print("1 passed, 0 failed")


main()
