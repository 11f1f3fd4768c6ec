"""Watches who answers for a partition, from both sides of a cut at once, and judges it afterwards.

    witness = Witness(region, victim, outside)   # `outside`: the machine that the others' clients are on; None without namespaces
    …hurt and heal…
    print(witness.end())                         # figures; AssertionError with the first things that must never be

For each partition that the victim owned, one client beside the victim talks to nobody else: it reads a key and writes another one, asking only for
the owner's own word, which an old owner would give most easily. Another client, outside, writes the first key under `replica` wherever
that is taken. What must never be (cluster.md, "Who may serve"), all by one monotonic clock:
  - an answer to what was asked after a higher generation had acknowledged, from a lower one;
  - a value older than one that had been acknowledged before it was asked for;
  - two nodes that acknowledge under one generation.
"""
import dataclasses
import threading
import time

from harness import native, records
from harness.waiting import paced

OWNER, REPLICA = 1, 2
SEGMENTS = 64


@dataclasses.dataclass
class Write:
    node: str
    asked: float
    answered: float
    generation: int
    number: int  # 0: of another key


@dataclasses.dataclass
class Read:
    asked: float
    answered: float
    number: int  # 0: there was none


def judge(writes, reads):
    """What must never be, as texts; of one partition. Linear after sorting, as runs are long."""
    wrong, by_generation = [], {}
    for write in writes:
        first = by_generation.setdefault(write.generation, write)
        if first.node != write.node:
            wrong.append(f"two owners of generation {write.generation}: {first} and {write}")
    ends = sorted(writes, key=lambda write: write.answered)
    at, generation, number = 0, 0, 0
    for one in sorted([*writes, *reads], key=lambda one: one.asked):
        while at < len(ends) and ends[at].answered < one.asked:
            generation, number = max(generation, ends[at].generation), max(number, ends[at].number)
            at += 1
        if isinstance(one, Write) and one.generation < generation:
            wrong.append(f"acknowledged by an old owner: {one}, while {generation} had acknowledged before it was asked")
        if isinstance(one, Read) and one.number < number:
            wrong.append(f"an old value: {one}, while {number} had been acknowledged before it was asked for")
    return wrong


def key_in(first, last, word):
    """A key of those segments."""
    n = 0
    while not first <= records.slot_of(b"%s-%d" % (word, n)) * SEGMENTS // records.SLOTS <= last:
        n += 1
    return b"%s-%d" % (word, n)


class Partition:
    def __init__(self, region, victim, outside, first, last):
        self.region, self.victim, self.outside = region, victim, outside
        self.key = key_in(first, last, b"witness")
        self.other = b"{%s}:inside" % self.key
        self.writes, self.reads, self.refused, self.over = [], [], {}, False
        self.threads = [threading.Thread(target=self.from_outside), threading.Thread(target=self.beside_the_victim)]
        for thread in self.threads:
            thread.start()

    def refuse(self, why):
        self.refused[why] = self.refused.get(why, 0) + 1

    def from_outside(self):
        if self.outside:
            self.outside.enter()
        clients, number, at = {}, 0, 0
        for _ in paced(0.02, 3600):
            if self.over:
                break
            number += 1
            for _ in self.region.nodes:
                node = self.region.nodes[at % len(self.region.nodes)]
                asked = time.monotonic()
                try:
                    if node.name not in clients:
                        clients[node.name] = native.Client(node.client_port, node.host, timeout=1.0)
                    answer = clients[node.name].call("put", [self.key, b"%d" % number, 0, None, REPLICA])
                    self.writes.append(Write(node.name, asked, time.monotonic(), answer[3], number))
                    break
                except native.Refused:
                    at += 1
                except OSError:
                    if node.name in clients:
                        clients.pop(node.name).give_up()  # or a write that nobody waits for any more would come after newer ones
                    at += 1
        for client in clients.values():
            client.close()

    def beside_the_victim(self):
        if self.victim.place:
            self.victim.place.enter()
        client = None
        for _ in paced(0.01, 3600):
            if self.over:
                break
            try:
                client = client or native.Client(self.victim.client_port, self.victim.host, timeout=300.0)
            except OSError:
                self.refuse("no connection")
                continue
            for what in (self.read_one, self.write_one):
                try:
                    what(client)
                except native.Refused as refused:
                    self.refuse(refused.status)
                except OSError:
                    self.refuse("no connection")
                    client = None
                    break
        if client:
            client.close()

    def read_one(self, client):
        asked = time.monotonic()
        value = client.get(self.key)
        self.reads.append(Read(asked, time.monotonic(), int(value or 0)))

    def write_one(self, client):
        asked = time.monotonic()
        answer = client.call("put", [self.other, b"x", 0, None, OWNER])
        self.writes.append(Write(self.victim.name, asked, time.monotonic(), answer[3], 0))

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join()


class Witness:
    def __init__(self, region, victim, outside=None):
        owned = [p for p in region.state()["partitions"] if p["owner"] == victim.name]
        self.partitions = [Partition(region, victim, outside, p["first"], p["first"] + p["segments"] - 1) for p in owned]

    def acknowledged_elsewhere(self):
        """Every partition that the victim owned has been written at another node."""
        return all(any(write.node != p.victim.name for write in p.writes[-50:]) for p in self.partitions)

    def end(self):
        """Figures; AssertionError if anything was that must never be."""
        found = {"partitions": len(self.partitions), "reads": 0, "writes": 0, "generations": 0, "refused": {}}
        wrong = []
        for partition in self.partitions:
            partition.end()
            wrong += judge(partition.writes, partition.reads)
            found["reads"] += len(partition.reads)
            found["writes"] += len(partition.writes)
            found["generations"] += len({write.generation for write in partition.writes})
            for why, count in partition.refused.items():
                found["refused"][why] = found["refused"].get(why, 0) + count
        assert not wrong, f"{len(wrong)} things that must never be: {wrong[:5]}"
        return found
