#!/usr/bin/python3
"""`async`: an owner dies with a tail that no replica has. What is lost then is that tail and nothing else, and the region of a follower
that had received some of it is put right: both regions are equal.

    tail.py [--rounds N] [--seed S] [--ship committed|replicated]

The owner's packets to the other nodes vanish for a moment while it acknowledges on its own, as `async` lets it, and its feed goes on; then it is
killed. Every write has a key of its own and is remembered with its position, so that the rule can be checked segment by segment:
  - what is lost is newer than all that survived of the same term;
  - what had been acknowledged before the packets vanished, and was in step, survives;
  - with feed.ship committed the follower had more than survived, and does not keep it: just the keys of that tail are put right, and nothing
    is copied anew but what was copied by ranges anyway.
Needs network namespaces; where those are not permitted the test is skipped.
"""
import argparse
import base64
import json
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import namespaces, native, processes  # noqa: E402
from harness.waiting import eventually, paced, random_moment  # noqa: E402
import region as region_of_several  # noqa: E402


class Writer:
    """New keys to one node, 200 at a time; remembers where each acknowledged one stands, and when that was said, and which nobody was told of."""

    def __init__(self, node, word):
        self.node, self.word, self.over, self.places, self.untold = node, word, False, {}, set()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        client, number = native.Client(self.node.client_port, self.node.host, timeout=2.0), 0
        for _ in paced(0.01, 600):
            if self.over:
                break
            asked, out = {}, []
            for _ in range(200):
                key = b"%s-%d" % (self.word, number)
                number += 1
                out.append(client.frame("put", [key, b"x" * 50, 0, None, 1]))
                asked[client.correlation] = key
            try:
                client.socket.sendall(b"".join(out))
                while asked:
                    correlation, status, places, _ = client.read()
                    key = asked.pop(correlation)
                    if status == "Ok":
                        self.places[key] = (places[2], places[3], places[4], time.monotonic())
                    else:
                        self.untold.add(key)
            except OSError:
                self.untold.update(asked.values())
                break
        client.close()

    def end(self):
        self.over = True
        self.thread.join()


def keys_of(region, folder):
    with open(processes.export(region, pathlib.Path(folder) / "keys")) as lines:
        return {base64.b64decode(json.loads(line)["key"]) for line in lines}


def judge(places, there, muted):
    """(survived, lost) of the writes; AssertionError where the lost are not a tail."""
    newest, oldest_lost = {}, {}
    lost = 0
    for key, (segment, generation, revision, said) in places.items():
        term = (segment, generation)
        if key in there:
            newest[term] = max(newest.get(term, 0), revision)
        else:
            lost += 1
            oldest_lost[term] = min(oldest_lost.get(term, revision), revision)
            assert said > muted - 1, f"{key} was acknowledged {muted - said:.2f} s before anything went wrong, and is lost"
    for term, revision in oldest_lost.items():
        assert newest.get(term, 0) < revision, f"segment {term[0]}: revision {revision} is lost, {newest[term]} of the same term survived"
    return len(places) - lost, lost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ship", default="committed", choices=["committed", "replicated"])
    arguments = parser.parse_args()
    namespaces.enter_own()
    rng = random.Random(arguments.seed)
    lost_at_all = 0
    untold_and_lost = 0  # the feed may have shown the follower what the writer was never told of
    with processes.Bench("tail") as bench:
        net = namespaces.Net()
        a = region_of_several.Region(bench, "a", net=net, feed=True, feed__ship=arguments.ship, replication__ack="async", replication__ack_max="replica", failover__cooldown="1s").start()
        b = bench.region("b").start("ready")
        gateway = a.gateway("g1").start("ready")
        follower = bench.follower(b, [bench.link("l", gateway, max_removal="100%")]).start()
        processes.caught_up_soon(follower, "l")
        for number in range(arguments.rounds):
            victim = rng.choice([node for node in a.nodes if node is not a.leader()])
            writer = Writer(victim, b"round%d" % number)
            eventually(lambda: len(writer.places) > 2000, "writes go in", 60)
            muted = time.monotonic()
            for other in a.nodes:
                if other is not victim:
                    net.mute(victim.place, other.place)
            random_moment(rng, 0.2, 0.8)
            victim.kill()
            writer.end()
            eventually(lambda: a.owners() and victim.name not in a.owners().values(), f"others own what {victim.name} owned", 60)
            net.heal()
            victim.start("live")
            a.wait_balanced()
            processes.caught_up(follower, "l", 120)
            processes.assert_equal(a, b, bench.folder)
            there = keys_of(a, bench.folder)
            survived, lost = judge(writer.places, there, muted)
            lost_at_all += lost
            untold_and_lost += len(writer.untold - there)
            status = processes.link_status(follower, "l")
            print(f"{number + 1}: {victim.name}: {survived} survived, {lost} lost, all of them its tail; ends of streams {status['stream_ends_total']}, copies {status['bootstraps_total']}, "
                  f"{status['rolled_back_total']} records of {status['rollbacks_total']} segments rolled back, {status['repair_bytes_total']} bytes crossed for it", flush=True)
        assert lost_at_all > 0, "no tail was lost, so that nothing was shown"
        if arguments.ship == "committed":
            at_most = lost_at_all + untold_and_lost
            assert 0 < status["rolled_back_total"] <= at_most, f"{status['rolled_back_total']} records were put right, {at_most} were lost"
            # A key that is gone at the source costs its name; nothing else of its segment crosses.
            assert status["repair_bytes_total"] <= 64 * at_most, f"{status['repair_bytes_total']} bytes crossed to put {status['rolled_back_total']} records right"
            assert status["bootstraps_total"]["unknown_lineage"] == 0, f"segments were copied anew: {status['bootstraps_total']}"
    print("1 passed, 0 failed")


main()
