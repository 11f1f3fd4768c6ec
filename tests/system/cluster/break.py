#!/usr/bin/python3
"""Breaks a region of three nodes again and again, under load, and checks that no acknowledged write is missing.

    break.py --what KIND --rounds N [--seed S] [--durability replica]

owner, leader     kill -9 of a node that is not the leader, or that is; started again.
freeze            SIGSTOP of a node for longer than anybody waits; then it wakes.
drain             SIGTERM: it hands over and leaves; no write fails.
drain-kill        the same, and kill -9 of another as soon as nobody counts on the first any more; both are started again.
etcd, etcd-kill   SIGSTOP of etcd for a minute, or kill -9 and a start after that time: nothing moves.
cut-owner, cut-leader   the cable of that machine is out: packets vanish, nobody is told.
cut-mute          a node's packets vanish, and it hears everybody.
cut-from-etcd     any node and etcd do not hear each other: nothing moves.
cut-from-peers    any node does not hear the other nodes, but etcd and clients: it keeps what it owns, and `replica` cannot be had there.
cut-etcd          etcd's cable is out for a minute: nothing moves.
mix, cut-mix      the kinds without and with a cable, in random order.

In freezes and cuts a witness (witness.py) watches both sides: two owners never answer for one partition. Cuts need network namespaces; where
those are not permitted the test is skipped.

Prints per round how long some key was not written, and at the end, once every copy is equal to its owner's, one JSON object: rounds,
acknowledged, missing, and the distribution of those times per kind. The seed chooses victims and moments. A hundred rounds, as the suite is too short for (about a quarter of an hour each):

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
from harness import namespaces, processes  # noqa: E402
from harness.waiting import eventually, random_moment  # noqa: E402
from load import Load, distribution  # noqa: E402
from witness import Witness  # noqa: E402
import region as region_of_several  # noqa: E402

CUTS = ["cut-owner", "cut-leader", "cut-mute", "cut-from-etcd", "cut-from-peers", "cut-etcd"]
KINDS = ["owner", "leader", "freeze", "drain", "drain-kill", "etcd", "etcd-kill"]
MOVING = ["freeze", "cut-owner", "cut-leader", "cut-mute"]  # others become owners of what the victim owned


class Breaker:
    """Hurts one region in one way at a time; each method returns the longest time that a key was not written."""

    def __init__(self, region, load, rng, etcd_seconds, hold_seconds):
        self.region, self.load, self.rng, self.etcd_seconds, self.hold_seconds = region, load, rng, etcd_seconds, hold_seconds
        self.net = region.net
        self.outside = self.net and self.net.host("load")
        self.seen = {}  # by the witnesses

    def victim(self, what):
        leader = self.region.leader()
        if "from" in what:
            return self.rng.choice(self.region.nodes)
        return leader if what.endswith("leader") else self.rng.choice([node for node in self.region.nodes if node is not leader])

    def round(self, what):
        victim = eventually(lambda: self.victim(what), "a leader is known", 30)
        random_moment(self.rng, 0, 0.5)
        self.load.line()
        if what in ("owner", "leader"):
            gap = self.kill(victim)
        elif what == "drain":
            gap = self.drain(victim)
        elif what == "drain-kill":
            gap = self.drain_then_kill(victim)
        elif what in ("etcd", "etcd-kill", "cut-etcd"):
            gap = self.without_etcd(what)
        else:
            gap = self.watched(what, victim)
        self.region.wait_balanced()
        return victim, gap

    def kill(self, victim):
        victim.kill()
        gap = self.load.worst_until_all_flow(60)
        victim.start(wait="live")
        return gap

    def drain(self, victim):
        failed = self.load.last["failed"]
        status = victim.stop(60)
        assert status == 0, f"a drained node ended with status {status}"
        gap = self.load.worst_until_all_flow(30)
        assert self.load.last["failed"] == failed, f"requests failed during a drain: {self.load.last}"
        victim.start(wait="live")
        return gap

    def drain_then_kill(self, victim):
        assert victim.stop(60) == 0, "a drained node ended badly"
        eventually(lambda: (state := self.region.state()) and all(victim.name not in p["synchronised"] for p in state["partitions"]), f"nobody counts on {victim.name}", 20)
        other = self.rng.choice([node for node in self.region.nodes if node is not victim])
        other.kill()
        victim.start(wait="live")  # one node alone confirms nothing
        gap = self.load.worst_until_all_flow(60)
        other.start(wait="live")
        return gap

    def without_etcd(self, what):
        before, generations = self.load.line()["acknowledged"], self.generations()
        if what == "etcd":
            self.region.etcd.signal(signal.SIGSTOP)
        elif what == "etcd-kill":
            self.region.etcd.kill()
        else:
            self.net.cut(self.region.etcd.place)
        random_moment(self.rng, self.etcd_seconds, self.etcd_seconds)
        assert self.generations() == generations, "ownership moved without etcd"
        if what == "etcd":
            self.region.etcd.signal(signal.SIGCONT)
        elif what == "etcd-kill":
            self.region.etcd.start()
        else:
            self.net.heal()
        gap = self.load.worst_until_all_flow(int(self.etcd_seconds) + 60)
        assert self.load.last["acknowledged"] > before, "nothing was acknowledged without etcd"
        return gap

    def generations(self):
        return {p["first"]: (p["owner"], p["generation"]) for p in self.region.state()["partitions"]}

    def watched(self, what, victim):
        """Hurts it for as long as it takes, with a witness on both sides."""
        witness = Witness(self.region, victim, self.outside)
        peers = [node.place for node in self.region.nodes if node is not victim]
        if what == "freeze":
            region_of_several.stop(victim)
        elif what == "cut-mute":
            for other in [*peers, self.region.etcd.place]:
                self.net.mute(victim.place, other)
        elif what == "cut-from-etcd":
            self.net.part(victim.place, self.region.etcd.place)
        elif what == "cut-from-peers":
            for other in peers:
                self.net.part(victim.place, other)
        else:
            self.net.cut(victim.place)
        gap = 0.0
        try:
            if what in MOVING:
                gap = self.load.worst_until_all_flow(60)
                eventually(witness.acknowledged_elsewhere, f"others own what {victim.name} owned", 60)
            random_moment(self.rng, self.hold_seconds / 3, self.hold_seconds)
        finally:
            if what == "freeze":
                region_of_several.cont(victim)
            else:
                self.net.heal()
        gap = max(gap, self.load.worst_until_all_flow(60))
        self.region.wait_balanced()
        for figure, value in witness.end().items():
            if figure == "refused":
                for why, count in value.items():
                    self.seen.setdefault(figure, {}).setdefault(why, 0)
                    self.seen[figure][why] += count
            else:
                self.seen[figure] = self.seen.get(figure, 0) + value
        return gap


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default="mix", choices=[*KINDS, *CUTS, "mix", "cut-mix"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--durability", default="replica")
    parser.add_argument("--pause-ms", type=int, default=0, help="of a key between its writes; 0: as fast as it goes")
    parser.add_argument("--cooldown", default="10s", help="failover.cooldown; a shorter one makes rounds shorter, and changes nothing before service is back")
    parser.add_argument("--etcd-seconds", type=float, default=60)
    parser.add_argument("--hold-seconds", type=float, default=6, help="how long a freeze or a cut lasts at most once others serve")
    arguments = parser.parse_args()
    cuts = arguments.what.startswith("cut-")
    if cuts:
        namespaces.enter_own()
    print(f"seed {arguments.seed}", flush=True)
    rng = random.Random(arguments.seed)
    gaps = {}
    with processes.Bench("break") as bench:
        net = namespaces.Net() if cuts else None
        region = region_of_several.Region(bench, "a", net=net, failover__cooldown=arguments.cooldown).start()
        load = Load(region.url, bench.folder / "ledger", arguments.keys, arguments.durability, arguments.pause_ms, run=net.host("load").run if net else ())
        load.line()
        breaker = Breaker(region, load, rng, arguments.etcd_seconds, arguments.hold_seconds)
        for number in range(arguments.rounds):
            what = rng.choice(["owner", "leader", "freeze", "drain", "owner"]) if arguments.what == "mix" else rng.choice(CUTS) if arguments.what == "cut-mix" else arguments.what
            victim, gap = breaker.round(what)
            gaps.setdefault(what, []).append(gap)
            print(f"{number + 1}: {what} {victim.name}: {gap:.2f} s without service at most; {load.last['acknowledged']} acknowledged, {load.last['not_met']} not met, {load.last['failed']} failed", flush=True)
        end = load.end()
        found = region_of_several.verify(region.url, load.file)
        copies = json.loads(processes.run_zaris("store", "verify", "--url", region.url, "--timeout", "30s", "-o", "json").stdout)
        assert copies["equal"] and copies["copies"] == 2 * copies["segments"], copies
        print(json.dumps({"what": arguments.what, "seed": arguments.seed, "rounds": arguments.rounds, "acknowledged": end["acknowledged"], "not_met": end["not_met"],
                          "failed": end["failed"], "errors": end["errors"], "keys": found["keys"], "missing": found["missing"], "equal_copies": copies["copies"], "witness": breaker.seen,
                          "without_service_s": {kind: distribution(seconds) for kind, seconds in gaps.items()}}), flush=True)
        assert found["missing"] == 0 or arguments.durability == "owner", f"acknowledged writes are missing: {found['lost'][:10]}"
        assert found["keys"] == arguments.keys
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
