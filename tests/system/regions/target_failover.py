#!/usr/bin/python3
"""A target of three nodes whose owners are killed, stopped or cut off while a follower applies: nothing that was acknowledged is lost or applied
twice, nothing is copied anew, and no cursor is ever above what the target holds durably. Nodes that leave in order (`drain`) do not even end the session.

    target_failover.py [--fault kill|freeze|cut|mix|drain] [--rounds N] [--seed N] [--keys N]

A round is one node hurt; faults and writes are drawn from the seed; keys: how many are written to. `cut` and `mix` pull the cable of a machine: they need
network namespaces, and where those are not permitted the test is skipped.
"""
import argparse
import base64
import json
import pathlib
import random
import signal
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import namespaces, native, processes  # noqa: E402
from harness.waiting import eventually, paced, random_moment  # noqa: E402
from region import Etcd  # noqa: E402

SEGMENTS = 64
NODES = ("n1", "n2", "n3")


class Cluster:
    """One region of three nodes on one etcd, on machines of their own if there is a net; what it owns is the bench's to end."""

    def __init__(self, bench, name, net):
        self.name, self.away = name, None  # who is stopped or cut off: it is not asked
        folder = bench.folder / name
        folder.mkdir()
        places = {n: net.host(n) if net else None for n in NODES}
        hosts = {n: place.address if place else "127.0.0.1" for n, place in places.items()}
        processes.run_zaris("tls", "dev-ca", "--dir", folder / "ca", *sum((["--server", n, "--name", hosts[n]] for n in NODES), []))
        self.etcd = Etcd(folder / "etcd", net and net.host("etcd"))
        bench.members.append(self.etcd)
        self.etcd.start()
        ports = {n: {k: processes.free_port() for k in ("cluster", "client", "admin")} for n in NODES}
        roster = [{"name": n, "host": hosts[n], "cluster_port": p["cluster"], "client_port": p["client"]} for n, p in ports.items()]
        self.nodes = {}
        for n, p in ports.items():
            config = {
                "standalone": False, "region": name, "store": "main", "segments": SEGMENTS, "roster": roster,
                "etcd": {"endpoints": [self.etcd.url], "prefix": f"/zaris/{name}"},
                "replication": {"factor": 3, "ack": "replica"}, "memory": {"max_bytes": "128MiB"}, "log": {"budget_bytes": "16MiB", "pin_bytes": "64MiB"},
                "node": {"name": n, "data_dir": str(folder / n / "data")},
                "tls": {"ca": str(folder / "ca" / "ca.crt"), "cert": str(folder / "ca" / f"{n}.crt"), "key": str(folder / "ca" / f"{n}.key")},
                "listeners": {k: {"address": f"{hosts[n] if k != 'admin' else '127.0.0.1'}:{p[k]}", **({"insecure": True} if net and k == "client" else {})} for k in p},
                "logging": {"level": "info", "format": "json"},
            }
            node = processes.Process(f"{name}-{n}", "zarisd", folder / n, config, p["admin"])
            node.client_port, node.host, node.place = p["client"], hosts[n], places[n]
            bench.members.append(node)
            self.nodes[n] = node
        self.url = "zaris://" + ",".join(f"{hosts[n]}:{p['client']}" for n, p in ports.items()) + "/main"

    def start(self):
        for node in self.nodes.values():
            node.start("live")
        for node in self.nodes.values():
            eventually(lambda: node.probe("/readyz"), f"{node.name} ready (log: {node.log_path})", 60)
        return self

    def healed(self):
        """Every partition has an owner, and all three copies are synchronised."""
        sets = self.sets()
        return len(self.owners()) == SEGMENTS and len(sets) == len(NODES) and all(len(members) == len(NODES) - 1 for members in sets)

    def sets(self):
        """The synchronised replicas of each partition, as etcd has them."""
        prefix = f"/zaris/{self.name}/main/synchronised/".encode()
        ask = {"key": base64.b64encode(prefix).decode(), "range_end": base64.b64encode(prefix[:-1] + b"0").decode()}
        return [json.loads(base64.b64decode(row["value"]))["members"] for row in self.etcd.ask("kv/range", ask).get("kvs", [])]

    def reachable(self):
        return [node for node in self.nodes.values() if node.running() and node is not self.away]

    def owners(self):
        """{segment: name of its owner}, by the newest map that a node gives."""
        newest, found = 0, {}
        for node in self.reachable():
            try:
                client = native.Client(node.client_port, node.host, timeout=5.0)
                version, _, _, nodes, runs, *_ = client.call("map", [])
                client.close()
            except (OSError, native.Refused):
                continue
            if version >= newest:
                newest, found = version, {s: nodes[run[2]][0].decode() for run in runs for s in range(run[0], run[1] + 1)}
        return found

    def marks(self, link):
        """{source segment: low}, of the segments that somebody serves now."""
        found = {}
        for node in self.reachable():
            try:
                client = native.Client(node.client_port, node.host, timeout=5.0)
                found.update({s: low for s, (_, low) in client.marks(link).items()})
                client.close()
            except (OSError, native.Refused):
                continue
        return found


class Writer:
    def __init__(self, region, keys, seed):
        self.client, self.keys, self.rng, self.written, self.over = native.Client(region.client_port), keys, random.Random(seed), 0, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        for _ in paced(0.02, 3600):
            if self.over:
                return
            self.client.put_many([(b"k:%d" % self.rng.randrange(self.keys), b"%d" % (self.written + i)) for i in range(40)])
            self.written += 40

    def end(self):
        self.over = True
        self.thread.join()


class Watch:
    """Cursors first, marks after: marks only grow, so a cursor above one was above it when it was shown."""

    def __init__(self, follower, cluster):
        self.follower, self.cluster, self.looks, self.wrong, self.over = follower, cluster, 0, [], False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        for _ in paced(0.3, 3600):
            if self.over:
                return
            try:
                cursors = {s["id"]: s["cursor"] for s in processes.link_status(self.follower, "l")["segments"] if s["cursor"]}
                marks = self.cluster.marks("l")
            except (OSError, AssertionError):
                continue
            self.looks += 1
            for segment, cursor in cursors.items():
                at = tuple(map(int, cursor.split(":")))
                if segment in marks and (marks[segment] is None or at > marks[segment]):
                    self.wrong.append((segment, at, marks[segment]))

    def end(self):
        self.over = True
        self.thread.join()


def hurt(fault, victim, net):
    if fault == "kill":
        victim.kill()
    elif fault == "freeze":
        victim.signal(signal.SIGSTOP)
    elif fault == "drain":
        victim.stop()
    else:
        net.cut(victim.place)


def heal(fault, victim, net):
    if fault in ("kill", "drain"):
        victim.start("live")
    elif fault == "freeze":
        victim.signal(signal.SIGCONT)
    else:
        net.heal()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="kill", choices=["kill", "freeze", "cut", "mix", "drain"])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keys", type=int, default=5000)
    arguments = parser.parse_args()
    net = None
    if arguments.fault in ("cut", "mix"):
        namespaces.enter_own()
        net = namespaces.Net()
    rng = random.Random(arguments.seed)
    with processes.Bench("target-failover") as bench:
        a = bench.region("a", segments=SEGMENTS)
        a.start("ready")
        b = Cluster(bench, "b", net).start()
        eventually(b.healed, "the region is whole", 60)
        source = native.Client(a.client_port)
        for start in range(0, arguments.keys, 1000):
            source.put_many([(b"k:%d" % n, b"v") for n in range(start, start + 1000)])
        follower = bench.follower(b, [bench.link("l", a)]).start()
        processes.caught_up_soon(follower, "l")
        before = processes.link_status(follower, "l")
        writer, watch = Writer(a, arguments.keys, arguments.seed), Watch(follower, b)
        try:
            for _ in range(arguments.rounds):
                name = rng.choice(sorted(set(b.owners().values())))
                victim = b.nodes[name]
                random_moment(rng, 0, 1)
                fault = arguments.fault if arguments.fault != "mix" else rng.choice(["kill", "freeze", "cut"])
                b.away = victim
                hurt(fault, victim, net)
                eventually(lambda: len(b.owners()) == SEGMENTS and name not in b.owners().values(), "others own everything", 60)
                applied = processes.link_status(follower, "l")["applied_total"]
                eventually(lambda: processes.link_status(follower, "l")["applied_total"] > applied, "changes flow again", 60)
                heal(fault, victim, net)
                b.away = None
                eventually(b.healed, f"{victim.name} is back and synchronised", 120)
        finally:
            writer.end()
            watch.end()
        processes.caught_up(follower, "l", 120)
        processes.assert_equal(a, b, bench.folder)
        status = processes.link_status(follower, "l")
        assert watch.looks > 0 and not watch.wrong, f"cursors above marks: {watch.wrong[:5]}"
        assert status["bootstraps_total"] == before["bootstraps_total"], f"copied anew: {status['bootstraps_total']}"
        assert status["target_rollbacks_total"] == 0, "what had been acknowledged at the link's durability was lost"
        sessions = status["reconnects_total"] - before["reconnects_total"]
        assert sessions == 0 or arguments.fault != "drain", f"{sessions} new sessions of the link although every node handed over (log: {follower.log_path})"
        print(f"{arguments.rounds} times {arguments.fault}, {writer.written} writes, {watch.looks} looks at cursors and marks, {sessions} new sessions of the link")
    print("1 passed, 0 failed")


main()
