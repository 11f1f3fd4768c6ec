#!/usr/bin/python3
"""A node that waits for etcd or for its region at its start says so on its admin port, and can be stopped.

    waits_for_etcd.py [--seed S]
"""
import argparse
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402
import region as region_of_several  # noqa: E402


def waits_and_stops(region, node, what, by=signal.SIGTERM):
    node.start(wait="live")
    eventually(lambda: what in node.readiness()[1]["serving"], f"its readiness says {what}", 20)
    assert not node.readiness()[0]
    assert node.metrics()["zaris_ready"] == 0
    node.signal(signal.SIGHUP)  # to be done once it serves
    node.signal(by)
    status = node.process.wait(20)  # it would try for a minute
    assert status == 0, f"exit {status}: {node.tail()}"
    node.process = None
    assert region.events(node, "stopped"), node.tail()
    print(f"{what}: said, and ended by {by.name}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.parse_args()
    with processes.Bench("waits-for-etcd") as bench:
        region = region_of_several.Region(bench, "a", failover__cooldown="1s")
        node = region.nodes[0]
        waits_and_stops(region, node, "etcd_unreachable")
        region.etcd.start()
        region.etcd.signal(signal.SIGSTOP)
        try:
            waits_and_stops(region, node, "etcd has not answered yet")
            waits_and_stops(region, node, "no answer from etcd in time", signal.SIGINT)
        finally:
            region.etcd.signal(signal.SIGCONT)
        eventually(region.etcd.answers, "etcd answers", 30)
        # Two that did not speak for longer than this test: the first waits for them.
        node.config["failover"]["lease"] = "30s"
        waits_and_stops(region, node, "region_not_begun")
        node.config["failover"].pop("lease")
        region.start()
        eventually(lambda: all(n.readiness()[0] for n in region.nodes), "all are ready", 30)
        print("and all begin once they can")
    print("1 passed, 0 failed")


main()
