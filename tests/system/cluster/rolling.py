#!/usr/bin/python3
"""A rolling restart that waits for nothing but /readyz loses nothing, however hard the nodes are stopped: under load each node is killed or stopped and
started again, the leader first, and the next one goes as soon as that one is ready.

    rolling.py [--rounds N] [--seed S] [--nodes N] [--factor N]
"""
import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402
from load import Load  # noqa: E402
import region as region_of_several  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--factor", type=int, default=2)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with processes.Bench("rolling") as bench:
        region = region_of_several.Region(bench, "a", size=arguments.nodes, factor=arguments.factor).start()
        eventually(lambda: all(node.probe("/readyz") for node in region.nodes), "every node is ready", 60)
        load = Load(region.url, bench.folder / "ledger", pause_ms=20)
        load.line()
        for number in range(arguments.rounds):
            for how in ("kill", "stop"):
                leader = eventually(region.leader, "a leader is known", 30)
                others = [node for node in region.nodes if node is not leader]
                rng.shuffle(others)
                for node in [leader, *others]:
                    node.kill() if how == "kill" else node.stop(60)
                    node.start("live")
                    eventually(lambda: node.probe("/readyz"), f"{node.name} is ready", 120)
                print(f"{number + 1}: {how}: {load.line()['acknowledged']} acknowledged", flush=True)
        region.wait_balanced()
        load.end()
        found = region_of_several.verify(region.url, load.file)
        assert found["missing"] == 0, found
        copies = json.loads(processes.run_zaris("store", "verify", "--url", region.url, "--timeout", "30s", "-o", "json").stdout)
        assert copies["equal"], copies
        assert not any(region.events(node, "failover") and "no registered node holds" in str(region.events(node, "failover")) for node in region.nodes)
    print("1 passed, 0 failed")


main()
