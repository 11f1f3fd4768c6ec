#!/usr/bin/python3
"""A node that comes back empty never serves its emptiness and never spreads it, under load; and when all nodes are gone, their keys are
Unavailable, loudly, until an operator accepts the loss.

    emptiness.py [--rounds N] [--seed S]

Readers ask every node for keys that were written once and stay: an answer is that value or a refusal, never "there is none". Per round a node is
killed and started again: at once, while etcd and the others still take the old process for alive, or once others have taken over.
"""
import argparse
import json
import pathlib
import random
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import native, processes  # noqa: E402
from harness.waiting import eventually, paced, random_moment  # noqa: E402
from load import Load  # noqa: E402
import region as region_of_several  # noqa: E402

KEYS = [b"stays-%d" % n for n in range(300)]


class Reader:
    """Asks one node for all keys, again and again, whoever owns them."""

    def __init__(self, node):
        self.node, self.over, self.right, self.refused, self.wrong = node, False, 0, {}, []
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        client = None
        for _ in paced(0.02, 3600):
            if self.over:
                break
            try:
                client = client or native.Client(self.node.client_port)
                for key in KEYS:
                    self.ask(client, key)
            except OSError:
                client = None
        if client:
            client.close()

    def ask(self, client, key):
        try:
            value = client.get(key)
        except native.Refused as refused:
            self.refused[refused.status] = self.refused.get(refused.status, 0) + 1
            return
        if value == b"there":
            self.right += 1
        else:
            self.wrong.append((self.node.name, key, value))

    def end(self):
        self.over = True
        self.thread.join()
        assert not self.wrong, f"{len(self.wrong)} answers out of emptiness: {self.wrong[:5]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with processes.Bench("emptiness") as bench:
        region = region_of_several.Region(bench, "a", failover__cooldown="1s").start()
        fill(region)
        load = Load(region.url, bench.folder / "ledger", pause_ms=20)
        load.line()
        readers = [Reader(node) for node in region.nodes]
        try:
            for number in range(arguments.rounds):
                victim, at_once = rng.choice(region.nodes), number % 2 == 0
                victim.kill()
                if not at_once:
                    load.worst_until_all_flow(60)
                    random_moment(rng, 0, 1)
                victim.start("live")
                gap = load.worst_until_all_flow(60)
                region.wait_balanced()
                print(f"{number + 1}: {victim.name} came back empty {'at once' if at_once else 'when others served'}; {gap:.2f} s without service at most", flush=True)
        finally:
            for reader in readers:
                reader.end()
        assert all(reader.right > 0 for reader in readers)
        print(f"{sum(reader.right for reader in readers)} right answers, refused: {[reader.refused for reader in readers]}")
        load.end()
        found = region_of_several.verify(region.url, load.file)
        assert found["missing"] == 0, found["lost"][:10]
        all_gone(bench, region)
    print("1 passed, 0 failed")


def fill(region):
    """Every key once, at whoever owns it."""
    clients = [native.Client(node.client_port) for node in region.nodes]
    for key in KEYS:
        assert any(took(client, key) for client in clients), key
    for client in clients:
        client.close()


def took(client, key):
    try:
        client.call("put", [key, b"there", 0, None, 4])
        return True
    except native.Refused:
        return False


def all_gone(bench, region):
    """kill -9 of all nodes under load: Unavailable by its code, in metrics and status, until accept-empty."""
    load = Load(region.url, bench.folder / "ledger-2", pause_ms=20, prefix="gone")
    load.line()
    for node in region.nodes:
        node.kill()
    for node in region.nodes:
        node.start("live")
    partitions = len(region.nodes)
    eventually(lambda: all(node.metrics()["zaris_cluster_partitions_without_owner"] == partitions for node in region.nodes), "every node says loudly that nobody owns anything", 90)
    for node in region.nodes:
        assert node.metrics()['zaris_cluster_partitions{state="unavailable"}'] == partitions, node.name
    asked = processes.run_zaris("kv", "get", KEYS[0].decode(), "--url", region.url, "--timeout", "2s", check=False)
    assert asked.returncode != 0 and "unavailable" in asked.stderr, (asked.returncode, asked.stdout, asked.stderr)
    for node in region.nodes:
        for key in KEYS[::10]:
            said = refusal(node, key)
            assert said in ("Unavailable", "closed"), f"{node.name} answered {said} for {key}"
    shown = processes.run_zaris("status", "--url", region.url, check=False)
    assert shown.returncode == 1 and "unavailable" in shown.stdout, shown.stdout
    processes.run_zaris("node", "accept-empty", "--url", region.url, "--yes")
    region.wait_healthy()
    load.worst_until_all_flow(90)
    end = load.end()
    assert region_of_several.verify(region.url, load.file)["missing"] == 0, "what was acknowledged after the loss was accepted"
    print(f"all gone: {json.dumps(end['errors'])} shown to the writer; accepted, and writes flow again")


def refusal(node, key):
    """What a node says of a key; closed: it does not even listen to clients."""
    try:
        client = native.Client(node.client_port)
    except OSError:
        return "closed"
    try:
        return f"the value {client.get(key)}"
    except native.Refused as refused:
        return refused.status
    finally:
        client.close()


main()
