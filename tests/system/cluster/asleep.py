#!/usr/bin/python3
"""A node sleeps while etcd moves on and forgets what it slept through: on waking it lists everything anew and is right again.

    asleep.py [--rounds N] [--seed S]

Per round one node that owns something is stopped, others take over, etcd's data are compacted up to the newest revision and defragmented, and etcd
itself is started again, so that no watch of the sleeper's has anything left to read. Then it wakes.
"""
import argparse
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402
from load import Load  # noqa: E402
from witness import Witness  # noqa: E402
import region as region_of_several  # noqa: E402

LISTS = "zaris_etcd_lists_total"


def versions(node):
    found = node.metrics()
    return tuple(found[f"zaris_cluster_{what}"] for what in ("map_version", "ownership_version", "leader_term"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with processes.Bench("asleep") as bench:
        region = region_of_several.Region(bench, "a", failover__cooldown="1s").start()
        load = Load(region.url, bench.folder / "ledger", pause_ms=20)
        load.line()
        for number in range(arguments.rounds):
            sleeper = rng.choice(region.nodes)
            others = [node for node in region.nodes if node is not sleeper]
            lists, slept = sleeper.metrics()[LISTS], versions(sleeper)
            witness = Witness(region, sleeper)
            region_of_several.stop(sleeper)
            eventually(witness.acknowledged_elsewhere, f"others own what {sleeper.name} owned", 60)
            eventually(lambda: versions(others[0]) > slept, "something has changed meanwhile", 30)
            gone = region.etcd.compact()
            region.etcd.kill()
            region.etcd.start()
            region_of_several.cont(sleeper)
            eventually(lambda: sleeper.metrics()[LISTS] > lists, f"{sleeper.name} lists everything anew", 30)
            region.wait_balanced()
            eventually(lambda: len({versions(node) for node in region.nodes}) == 1, "all nodes know the same", 30)
            eventually(lambda: all(node.metrics()["zaris_cluster_view_converged"] == 1 for node in region.nodes), "the views have converged", 30)
            load.worst_until_all_flow(60)
            print(f"{number + 1}: {sleeper.name} slept until revision {gone} was compacted away; {sleeper.metrics()[LISTS] - lists:g} lists; {witness.end()}", flush=True)
        end = load.end()
        found = region_of_several.verify(region.url, load.file)
        assert found["missing"] == 0, found["lost"][:10]
        print(f"{end['acknowledged']} acknowledged, none missing")
    print("1 passed, 0 failed")


main()
