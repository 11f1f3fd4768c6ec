#!/usr/bin/python3
"""Breaks a region of three nodes again and again, under load, and checks that no acknowledged write is missing.

    break.py --what owner|leader|freeze|etcd|empty|mix --rounds N [--seed S] [--durability replica]

owner   kill -9 of a node that is not the leader, started again.      leader  the same of the leader.
freeze  SIGSTOP of a node for longer than anybody waits; then it wakes.  etcd  SIGSTOP of etcd for a minute: nothing moves.
drain   SIGTERM: it hands over and leaves; no write fails.            mix     all of them in random order.

Prints per round how long writes did not flow, and at the end the distribution. The seed chooses victims and moments.
"""
import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import processes  # noqa: E402
from harness.waiting import eventually, random_moment  # noqa: E402
import region as region_of_several  # noqa: E402


class Load:
    """cluster_ledger write in the background; its lines as they come."""

    def __init__(self, url, file, keys, durability):
        self.file = file
        self.process = region_of_several.ledger("write", "--url", url, "--file", file, "--keys", keys, "--durability", durability, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.last = {}

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            raise AssertionError(f"the writer ended: {self.process.stderr.read()}")
        self.last = json.loads(text)
        return self.last

    def worst_until_all_flow(self, seconds):
        """The longest gap of any key, read until every key has been acknowledged since."""
        worst, quiet = 0.0, 0
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            line = self.line()
            if line["at"] < began:
                continue  # said before the fault, and only read now
            worst = max(worst, line["longest_s"], line["waiting_s"])
            quiet = quiet + 1 if line["longest_s"] < 1 and line["waiting_s"] < 1 else 0
            if quiet >= 2:
                return worst
        raise AssertionError(f"writes do not flow again: {self.last}")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=120)
        lines = out.strip().splitlines()
        if lines:
            self.last = json.loads(lines[-1])
        return self.last


def median(values):
    return sorted(values)[len(values) // 2] if values else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default="mix", choices=["owner", "leader", "freeze", "etcd", "drain", "mix"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--durability", default="replica")
    parser.add_argument("--etcd-seconds", type=float, default=60)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    rng = random.Random(arguments.seed)
    gaps = {}
    with processes.Bench("break") as bench:
        region = region_of_several.Region(bench, "a").start()
        load = Load(region.url, bench.folder / "ledger", arguments.keys, arguments.durability)
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
                          "gap_s": {k: {"median": round(median(v), 2), "max": round(max(v), 2), "all": [round(x, 2) for x in sorted(v)]} for k, v in gaps.items()}}), flush=True)
        assert found["missing"] == 0 or arguments.durability == "owner", f"acknowledged writes are missing: {found['lost'][:10]}"
        assert found["keys"] == arguments.keys
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
