#!/usr/bin/python3
"""A follower reads a region of three nodes through one address, and does not notice when nodes die or leave: the regions are equal afterwards, and
nothing was bootstrapped twice.

    failover.py [--kills N] [--keys N]
"""
import argparse
import base64
import json
import pathlib
import signal
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import processes  # noqa: E402
from harness.processes import Process, free_port  # noqa: E402
from harness.waiting import eventually, paced  # noqa: E402

SEGMENTS = 16


class Cluster:
    """Region `a`: etcd and three nodes."""

    def __init__(self, bench):
        self.bench, self.folder = bench, bench.folder
        ca = self.certificates = bench.certificates
        processes.run_zaris("tls", "dev-ca", "--dir", ca, "--server", "n1", "--server", "n2", "--server", "n3", "--server", "gateway")
        port, peer = free_port(), free_port()
        self.etcd_url = f"http://127.0.0.1:{port}"
        peers = f"http://127.0.0.1:{peer}"
        self.etcd_log = open(self.folder / "etcd.log", "wb")
        self.etcd = subprocess.Popen(["/usr/bin/etcd", "--data-dir", str(self.folder / "etcd"), "--listen-client-urls", self.etcd_url, "--advertise-client-urls", self.etcd_url,
                                      "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"],
                                     stdout=self.etcd_log, stderr=self.etcd_log)
        names = ["n1", "n2", "n3"]
        ports = {n: {k: free_port() for k in ("cluster", "client", "feed", "admin")} for n in names}
        roster = [{"name": n, "host": "127.0.0.1", "cluster_port": ports[n]["cluster"], "client_port": ports[n]["client"], "feed_port": ports[n]["feed"]} for n in names]
        self.nodes = {}
        for n in names:
            config = {
                "standalone": False, "region": "a", "etcd": {"endpoints": [self.etcd_url], "prefix": "/zaris/a"}, "replication": {"factor": 3, "ack": "replica"},
                "segments": SEGMENTS, "memory": {"max_bytes": "128MiB"}, "log": {"budget_bytes": "16MiB", "pin_bytes": "64MiB"},
                "tls": {"cert": str(ca / f"{n}.crt"), "key": str(ca / f"{n}.key"), "ca": str(ca / "ca.crt")},
                "node": {"name": n}, "roster": roster, "formation": {"stable": "1s"},
                "listeners": {k: {"address": f"127.0.0.1:{ports[n][k]}"} for k in ("cluster", "client", "feed", "admin")},
                "feed": {"access": [{"subject": "gateway", "prefixes": [""]}]},
                "logging": {"level": "info", "format": "json"},
            }
            node = Process(n, "zarisd", self.folder / n, config, ports[n]["admin"])
            node.client_port = ports[n]["client"]
            bench.members.append(node)
            self.nodes[n] = node
        self.url = "zaris://" + ",".join(f"127.0.0.1:{n.client_port}" for n in self.nodes.values()) + "/main"

    def start(self):
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            eventually(lambda node=node: node.probe("/readyz"), f"{node.name} serves", 60)

    def gateway(self, name, **upstream):
        admin, feed = free_port(), free_port()
        ca = self.certificates
        config = {
            "upstream": {"seeds": [f"zaris://127.0.0.1:{next(iter(self.nodes.values())).client_port}"], **upstream},  # the first to be killed below
            "tls": {"cert": str(ca / "gateway.crt"), "key": str(ca / "gateway.key"), "ca": str(ca / "ca.crt")},
            "listeners": {"feed": {"address": f"127.0.0.1:{feed}"}, "admin": {"address": f"127.0.0.1:{admin}"}},
            "logging": {"level": "info", "format": "json"},
        }
        gateway = Process(name, "zaris-gateway", self.folder / name, config, admin)
        gateway.feed_port = feed
        self.bench.members.append(gateway)
        return gateway

    def owner_of_most(self, gateway):
        nodes = [n for n in gateway.json("/v1/status")["nodes"] if self.nodes[n["node"]].running()]
        return max(nodes, key=lambda n: n["segments"])["node"]

    def stop(self):
        self.etcd.kill()
        self.etcd.wait()
        self.etcd_log.close()


class Writer:
    """Writes through the command line, which follows the owners; what it says is written is."""

    def __init__(self, cluster, keys):
        self.cluster, self.keys, self.rounds, self.over, self.failed = cluster, keys, 0, False, []
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        for _ in paced(0, 300):
            if self.over:
                return
            run = load(self.cluster, range(self.keys), f"round {self.rounds}", check=False)
            if run.returncode != 0:
                self.failed.append(run.stderr)
            self.rounds += 1

    def end(self):
        self.over = True
        self.thread.join()


def load(cluster, keys, value, check=True):
    def text(word):
        return base64.b64encode(word.encode()).decode()

    lines = "".join(json.dumps({"key": text(f"k:{k}"), "value": text(f"{value} {k}")}) + "\n" for k in keys)
    return processes.run_zaris("kv", "import", "--url", cluster.url, "-", check=check, input=lines, timeout=120)


def owned(gateway):
    """{node: segments}; empty while any segment has no owner."""
    status = gateway.json("/v1/status")
    return {} if status["segments_unowned"] else {n["node"]: n["segments"] for n in status["nodes"]}


def sessions(gateway):
    """That followers have begun, since the gateway did."""
    return gateway.metrics()['zaris_feed_subscriptions_total{transport="websocket"}']


def bootstraps(follower):
    return sum(v for k, v in follower.metrics().items() if "bootstraps_total" in k)


def page(cluster, gateway):
    """GET /v1/segments, as `zaris feed segments` shows it."""
    return json.loads(processes.run_zaris("segments", "--feed", f"zariss://127.0.0.1:{gateway.feed_port}", "--ca", cluster.certificates / "ca.crt",
                                          "--cert", cluster.certificates / "follower.crt", "--key", cluster.certificates / "follower.key", "-o", "json", program="zaris-feed").stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--keys", type=int, default=2000)
    arguments = parser.parse_args()
    with processes.Bench("gateway") as bench:
        a = Cluster(bench)
        try:
            run(bench, a, arguments)
        finally:
            a.stop()


def says_that_it_is_not_granted(a):
    """A gateway that the nodes' feeds refuse could serve nobody: a balancer must not send followers there, and its operator is told why."""
    ca = a.certificates
    stranger = a.gateway("stranger", tls={"cert": str(ca / "n1.crt"), "key": str(ca / "n1.key")}).start()
    eventually(lambda: "no row for 'CN=n1'" in stranger.readiness()[1]["region"], "it says who refuses it and why", 30)
    assert not stranger.readiness()[0] and "feed_subject_unknown" in stranger.json("/v1/status")["trouble"]
    stranger.stop()


def run(bench, a, arguments):
    a.start()
    says_that_it_is_not_granted(a)
    gateway = a.gateway("g1").start("ready")
    b = bench.region("b").start("ready")
    load(a, range(arguments.keys), "first")
    follower = bench.follower(b, [bench.link("l", gateway)]).start()
    processes.caught_up(follower, "l", 60)
    processes.assert_equal(a, b, bench.folder)
    first, begun = bootstraps(follower), sessions(gateway)
    assert first >= 1, follower.metrics()
    print(f"equal after the bootstrap, {first:g} bootstraps")

    for kill in range(arguments.kills):
        writer = Writer(a, arguments.keys)
        eventually(lambda: writer.rounds >= 1, "writes go in", 60)
        victim = next(iter(a.nodes.values())) if kill == 0 else a.nodes[a.owner_of_most(gateway)]
        victim.kill()
        rounds = writer.rounds
        eventually(lambda: writer.rounds >= rounds + 2, f"writes go in without {victim.name}", 120)
        eventually(lambda: gateway.json("/v1/status")["segments_unowned"] == 0, "every segment is owned", 60)
        writer.end()
        load(a, range(arguments.keys), f"after kill {kill}")
        processes.caught_up(follower, "l", 60)
        processes.assert_equal(a, b, bench.folder)
        assert bootstraps(follower) == first, f"{bootstraps(follower)} bootstraps, {first} before {victim.name} was killed"
        assert sessions(gateway) == begun, "the follower had to connect again"
        print(f"equal after {victim.name} was killed under load, still {first:g} bootstraps")
        victim.config["node"]["threads"] = 2 + kill  # of another number than before: nobody's place hangs on it
        victim.start("ready")

    # One that says nothing any more, and whose connections stay.
    victim = a.nodes[a.owner_of_most(gateway)]
    victim.signal(signal.SIGSTOP)
    eventually(lambda: owned(gateway).get(victim.name) == 0, f"what {victim.name} owned is owned by others", 60)
    victim.signal(signal.SIGCONT)
    load(a, range(arguments.keys), "after the stop")
    processes.caught_up(follower, "l", 60)
    processes.assert_equal(a, b, bench.folder)
    assert bootstraps(follower) == first
    assert sessions(gateway) == begun, "the follower had to connect again"
    print(f"equal after {victim.name} was stopped and went on")

    # One that leaves in order, under load: it hands over.
    writer = Writer(a, arguments.keys)
    eventually(lambda: writer.rounds >= 1, "writes go in", 60)
    victim = a.nodes[a.owner_of_most(gateway)]
    assert victim.stop(60) == 0, f"{victim.name} did not hand over"
    rounds = writer.rounds
    eventually(lambda: writer.rounds >= rounds + 2, f"writes go in without {victim.name}", 60)
    writer.end()
    load(a, range(arguments.keys), "after the drain")
    processes.caught_up(follower, "l", 60)
    processes.assert_equal(a, b, bench.folder)
    assert bootstraps(follower) == first, f"{bootstraps(follower)} bootstraps, {first} before {victim.name} left"
    assert sessions(gateway) == begun, "the follower had to connect again"
    assert not writer.failed, f"an import failed during a drain: {writer.failed[:1]}"
    print(f"equal after {victim.name} left in order under load, still {first:g} bootstraps, no write failed")
    victim.start("ready")
    eventually(lambda: (len(page(a, gateway)["segments"]), "unavailable" in page(a, gateway)) == (SEGMENTS, False), "every segment is listed as served", 30)
    again = gateway.metrics()["zaris_gateway_reattached_segments_total"]
    assert again >= 1, f"segments went to other owners at each fault, and {again:g} were attached again"
    assert gateway.metrics()["zaris_gateway_node_connections_lost_total"] >= 1
    tail = processes.run_zaris("tail", "--feed", f"zariss://127.0.0.1:{gateway.feed_port}", "--ca", a.certificates / "ca.crt", "--cert", a.certificates / "follower.crt",
                               "--key", a.certificates / "follower.key", "--since", "oldest", "--count", "100", "-o", "ndjson", program="zaris-feed")
    assert len([line for line in tail.stdout.splitlines() if '"op"' in line]) >= 100, tail.stdout[-500:]
    # Nobody serves anything: that is said, and not left to be missed.
    for node in a.nodes.values():
        node.kill()
    eventually(lambda: page(a, gateway).get("unavailable") == list(range(SEGMENTS)), "every segment is listed as unavailable", 30)
    assert gateway.stop() == 0


if __name__ == "__main__":
    main()
