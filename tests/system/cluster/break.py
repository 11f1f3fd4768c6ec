#!/usr/bin/python3
"""Breaks a region of three nodes again and again, under load, and checks that no acknowledged write is missing.

    break.py --what owner|leader|freeze|drain|etcd|mix --rounds N [--seed S] [--durability replica]

owner   kill -9 of a node that is not the leader, started again.      leader  the same of the leader.
freeze  SIGSTOP of a node for longer than anybody waits; then it wakes.  etcd  SIGSTOP of etcd for a minute: nothing moves.
drain   SIGTERM: it hands over and leaves; no write fails.            mix     all of them in random order.

Prints per round how long some key was not written, and at the end one JSON object: rounds, acknowledged, missing, and the distribution of
those times per kind. The seed chooses victims and moments. A hundred rounds, as the suite is too short for (about half an hour each):

    break.py --what owner --rounds 100 --pause-ms 20 --cooldown 2s
    break.py --what leader --rounds 100 --pause-ms 20 --cooldown 2s
"""
import argparse
import json
import pathlib
import random
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import processes  # noqa: E402
from harness.waiting import eventually, random_moment  # noqa: E402
from load import Load, distribution  # noqa: E402
import region as region_of_several  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default="mix", choices=["owner", "leader", "freeze", "etcd", "drain", "mix"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--durability", default="replica")
    parser.add_argument("--pause-ms", type=int, default=0, help="of a key between its writes; 0: as fast as it goes")
    parser.add_argument("--cooldown", default="10s", help="failover.cooldown; a shorter one makes rounds shorter, and changes nothing before service is back")
    parser.add_argument("--etcd-seconds", type=float, default=60)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    rng = random.Random(arguments.seed)
    gaps = {}
    with processes.Bench("break") as bench:
        region = region_of_several.Region(bench, "a", failover__cooldown=arguments.cooldown).start()
        load = Load(region.url, bench.folder / "ledger", arguments.keys, arguments.durability, arguments.pause_ms)
        load.line()
        for number in range(arguments.rounds):
            what = arguments.what if arguments.what != "mix" else rng.choice(["owner", "leader", "freeze", "drain", "owner"])
            leader = region.leader()
            others = [node for node in region.nodes if node is not leader]
            victim = leader if what == "leader" else rng.choice(others)
            promotions = sum(state["promotions"] for state in [region.state()])
            random_moment(rng, 0, 0.5)
            load.line()
            if what in ("owner", "leader"):
                victim.kill()
                gap = load.worst_until_all_flow(60)
                victim.start(wait="live")
            elif what == "freeze":
                region_of_several.stop(victim)
                gap = load.worst_until_all_flow(60)
                region_of_several.cont(victim)
            elif what == "drain":
                failed = load.last["failed"]
                status = victim.stop(60)
                assert status == 0, f"a drained node ended with status {status}"
                gap = load.worst_until_all_flow(30)
                assert load.last["failed"] == failed, f"requests failed during a drain: {load.last}"
                victim.start(wait="live")
            else:
                before = load.line()["acknowledged"]
                region.etcd.signal(signal.SIGSTOP)
                random_moment(rng, arguments.etcd_seconds, arguments.etcd_seconds)
                region.etcd.signal(signal.SIGCONT)
                gap = load.worst_until_all_flow(int(arguments.etcd_seconds) + 60)
                assert load.last["acknowledged"] > before, "nothing was acknowledged without etcd"
                eventually(lambda: region.state()["promotions"] >= promotions, "the region answers", 30)
            gaps.setdefault(what, []).append(gap)
            region.wait_balanced()
            print(f"{number + 1}: {what} {victim.name}: {gap:.2f} s without service at most; {load.last['acknowledged']} acknowledged, {load.last['not_met']} not met, {load.last['failed']} failed", flush=True)
        end = load.end()
        found = region_of_several.verify(region.url, load.file)
        print(json.dumps({"what": arguments.what, "seed": arguments.seed, "rounds": arguments.rounds, "acknowledged": end["acknowledged"], "not_met": end["not_met"],
                          "failed": end["failed"], "errors": end["errors"], "keys": found["keys"], "missing": found["missing"],
                          "without_service_s": {kind: distribution(seconds) for kind, seconds in gaps.items()}}), flush=True)
        assert found["missing"] == 0 or arguments.durability == "owner", f"acknowledged writes are missing: {found['lost'][:10]}"
        assert found["keys"] == arguments.keys
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
