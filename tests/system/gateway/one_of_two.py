#!/usr/bin/python3
"""Two gateways behind one name; the one that a follower is attached to is killed, stopped or cut off under load, again and again: the follower goes on at the other
one where it was, nothing is copied anew, and the regions are equal afterwards.

    one_of_two.py [--rounds N] [--seed S]

The name has two addresses, as a name service would give; that needs a file of names of our own, and so a mount namespace; cuts need network namespaces. Where those are not
permitted the test is skipped.
"""
import argparse
import pathlib
import random
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import namespaces, processes  # noqa: E402
from harness.waiting import eventually, random_moment  # noqa: E402
from load import Load, distribution  # noqa: E402
import region as region_of_several  # noqa: E402


def attached(gateway):
    """Whether a follower is attached there now."""
    return gateway.metrics()['zaris_feed_subscriptions{transport="websocket"}'] > 0


def only(found):
    return found[0] if len(found) == 1 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    namespaces.enter_own()
    rng = random.Random(arguments.seed)
    with processes.Bench("one-of-two") as bench:
        net = namespaces.Net()
        places = [net.host(name) for name in ("g1", "g2")]
        names = bench.folder / "hosts"
        names.write_text("127.0.0.1 localhost\n" + "".join(f"{place.address} gateways\n" for place in places))
        subprocess.run(["mount", "--bind", str(names), "/etc/hosts"], check=True)
        a = region_of_several.Region(bench, "a", net=net, feed=True, replication__ack="replica", failover__cooldown="1s").start()
        b = bench.region("b").start("ready")
        port = processes.free_port()
        gateways = [a.gateway(f"g{n + 1}", place.address, port) for n, place in enumerate(places)]
        for gateway, place in zip(gateways, places):
            gateway.place = place
            gateway.start("ready")
        load = Load(a.url, bench.folder / "ledger", pause_ms=20)
        link = {"name": "l", "source": {"url": f"zariss://gateways:{port}"}}
        follower = bench.follower(b, [link]).start()
        processes.caught_up_soon(follower, "l")
        bootstraps = processes.link_status(follower, "l")["bootstraps_total"]
        without = []
        for number in range(arguments.rounds):
            victim = eventually(lambda: only([gateway for gateway in gateways if attached(gateway)]), "the follower is attached to one", 60)
            random_moment(rng, 0, 1)
            # The first is the one whose address comes first: stopped, it still takes connections, and is not to take one after the other.
            how = ("stopped", "killed", "cut off")[number % 3]
            if how == "stopped":
                victim.signal(signal.SIGSTOP)
            elif how == "killed":
                victim.kill()
            else:
                net.cut(victim.place)
            other = next(gateway for gateway in gateways if gateway is not victim)
            # A silent gateway is given up after four seconds, not after the fifteen of three heartbeats.
            eventually(lambda: attached(other), f"the follower is attached to {other.name}", 60 if how == "killed" else 12)
            applied = processes.link_status(follower, "l")["applied_total"]
            eventually(lambda: processes.link_status(follower, "l")["applied_total"] > applied, "changes flow again", 60)
            without.append(processes.link_status(follower, "l")["staleness_seconds"])
            if how == "stopped":
                victim.signal(signal.SIGCONT)
            elif how == "killed":
                victim.start("ready")
            else:
                net.heal()
            print(f"{number + 1}: {victim.name} was {how}, the follower went on at {other.name}", flush=True)
        gap = load.worst_until_all_flow(30)
        end = load.end()
        processes.caught_up(follower, "l", 60)
        processes.assert_equal(a, b, bench.folder)
        status = processes.link_status(follower, "l")
        assert status["bootstraps_total"] == bootstraps, f"copied anew: {bootstraps} before, {status['bootstraps_total']} after"
        assert status["gap_errors_total"] == 0 and status["target_rollbacks_total"] == 0, status
        assert region_of_several.verify(b.url, load.file)["missing"] == 0, "what the source had acknowledged is not in the target"
        print(f"{arguments.rounds} gateways, {end['acknowledged']} acknowledged, {gap:.2f} s without writes at most, none copied anew; staleness right behind: {distribution(without)}")
    print("1 passed, 0 failed")


main()
