#!/usr/bin/python3
"""A region of three whose nodes keep op-log on disks: a follower is away while ten times the log in memory is written, an owner dies and another one takes over what it owned
in that time, and the follower goes on without a copy: the copies kept what their owner kept. Where one node has no such disk, what it takes over is copied as far as it changed,
and its memory is not filled with what its owner had on a disk.

    history.py [--seed S]
"""
import argparse
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import native, processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402
import region as region_of_several  # noqa: E402

KEYS, VALUE = 4000, 500
MIB = 1 << 20


def write(region, rng, mib):
    """So much, through every node its own keys."""
    clients = {node.name: native.Client(node.client_port, node.host) for node in region.running()}
    for part in range(int(mib * MIB / (VALUE + 60) / 300)):
        for client in clients.values():
            client.put_many([(b"key:%05d" % rng.randrange(KEYS), rng.randbytes(VALUE)) for _ in range(300)])
    for client in clients.values():
        client.close()


def metric(node, name):
    return sum(value for series, value in node.metrics().items() if series.split("{")[0] == name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    rng = random.Random(parser.parse_args().seed)
    with processes.Bench("history-of-several") as bench:
        a = region_of_several.Region(bench, "a", feed=True, log__budget_bytes="1MiB", log__pin_bytes="4MiB")
        for node in a.nodes[:2]:
            node.config["log"].update(spill_path=str(bench.folder / node.name / "spill"), spill_bytes="256MiB")
        without = a.nodes[2]
        a.start()
        b = bench.region("b").start("ready")
        gateway = a.gateway("g1").start("ready")
        follower = bench.follower(b, [bench.link("l", gateway)]).start()
        write(a, rng, 3)
        processes.caught_up(follower, "l", 120)

        follower.kill()
        write(a, rng, 30)
        eventually(lambda: metric(without, "zaris_log_used_bytes") <= 5 * MIB, f"{without.name}: log in memory within its bound", 60)
        victim = a.nodes[0]
        taken = [partition for partition, owner in a.owners().items() if owner == victim.name]
        victim.kill()
        eventually(lambda: a.owners() and victim.name not in a.owners().values(), f"others own what {victim.name} owned", 60)
        owners = a.owners()
        write(a, rng, 2)
        follower.start()
        processes.caught_up(follower, "l", 120)
        status = processes.link_status(follower, "l")
        copies = sum(status["bootstraps_total"].values())
        by_heirs = {heir: sum(1 for partition in taken if owners[partition] == heir) for heir in (a.nodes[1].name, without.name)}
        own = sum(1 for owner in owners.values() if owner == without.name) - by_heirs[without.name]
        print(f"{victim.name} owned {len(taken)} partitions; heirs {by_heirs}; {without.name} owned {own} before; {copies} copies begun, reasons {status['bootstraps_total']}, "
              f"{status['bootstrap']['kept_total']} records found in place", flush=True)
        # What the node without a disk owns now was written past its memory: those segments, and no others. A partition has 21 or 22 of the 64.
        partitions = own + by_heirs[without.name]
        assert 64 // len(owners) * partitions <= copies <= -(-64 // len(owners)) * partitions, "segments were copied whose log their owner, or its heir, had on a disk"
        victim.start("live")
        a.wait_balanced()
        processes.caught_up(follower, "l", 120)
        processes.assert_equal(a, b, bench.folder)
    print("1 passed, 0 failed")


main()
