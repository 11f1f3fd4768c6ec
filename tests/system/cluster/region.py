"""A region of several nodes with an etcd of its own, as real processes on loopback."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402


class Etcd:
    """One etcd on ports of its own; killed and stopped by its own pid only. `place`: the namespaces.Host that it is on."""

    def __init__(self, folder, place=None):
        self.folder, self.place = pathlib.Path(folder), place
        self.port, self.peer_port = processes.free_port(), processes.free_port()
        self.host = place.address if place else "127.0.0.1"
        self.url = f"http://{self.host}:{self.port}"
        self.process = None

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        peer = f"http://{self.host}:{self.peer_port}"
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([*(self.place.run if self.place else ()), "etcd", "--data-dir", str(self.folder / "data"), "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                                             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}", "--unsafe-no-fsync"],
                                            stdout=log, stderr=log)
        eventually(self.answers, "etcd answers", 30)
        return self

    def answers(self):
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=1) as answer:
                return b"true" in answer.read()
        except OSError:
            return False

    def compact(self):
        """Forgets all history up to the newest revision, which it returns, and gives the room back."""
        revision = self.ask("kv/range", {"key": "AA==", "limit": 1, "keys_only": True})["header"]["revision"]
        self.ask("kv/compaction", {"revision": revision, "physical": True})
        self.ask("maintenance/defragment", {})
        return int(revision)

    def ask(self, what, question):
        request = urllib.request.Request(f"{self.url}/v3/{what}", data=json.dumps(question).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def signal(self, which):
        self.process.send_signal(which)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Region:
    """nodes n1 … ; every node with a certificate of its own name. Use inside a processes.Bench.
    `net`: a namespaces.Net on which etcd and every node are machines of their own; `feed`: for gateways."""

    def __init__(self, bench, name, size=3, factor=3, etcd=None, net=None, feed=False, **overrides):
        self.bench, self.name, self.net = bench, name, net
        self.etcd = etcd or Etcd(bench.folder / f"{name}-etcd", net and net.host("etcd"))
        if etcd is None:
            bench.members.append(self.etcd)
        names = [f"{name}{i + 1}" for i in range(size)]
        places = {one: net.host(one) if net else None for one in names}
        hosts = {one: place.address if place else "127.0.0.1" for one, place in places.items()}
        servers = [word for one in names for word in ("--server", one, "--name", hosts[one])]
        processes.run_zaris("tls", "dev-ca", "--dir", bench.certificates, *servers)
        ports = {one: {k: processes.free_port() for k in ("client", "cluster", "admin", "feed")} for one in names}
        roster = [{"name": one, "host": hosts[one], "cluster_port": ports[one]["cluster"], "client_port": ports[one]["client"],
                   **({"feed_port": ports[one]["feed"]} if feed else {})} for one in names]
        self.nodes = []
        for one in names:
            config = {
                "region": name, "store": "main", "standalone": False, "segments": 64, "node": {"name": one},
                "etcd": {"endpoints": [self.etcd.url], "prefix": f"/zaris/{name}"},
                "roster": roster, "replication": {"factor": factor},
                "memory": {"max_bytes": "256MiB"}, "log": {"budget_bytes": "16MiB", "pin_bytes": "64MiB"},
                "tls": {"cert": str(bench.certificates / f"{one}.crt"), "key": str(bench.certificates / f"{one}.key"), "ca": str(bench.certificates / "ca.crt")},
                "listeners": {"client": {"address": f"{hosts[one]}:{ports[one]['client']}", "insecure": net is not None},
                              "cluster": {"address": f"{hosts[one]}:{ports[one]['cluster']}"},
                              "admin": {"address": f"127.0.0.1:{ports[one]['admin']}"}},
                "logging": {"level": "info", "format": "json"},
            }
            if feed:
                config["listeners"]["feed"] = {"address": f"{hosts[one]}:{ports[one]['feed']}"}
                config["feed"] = {"access": [{"subject": "gateway", "prefixes": [""]}]}
            processes.merge(config, overrides)
            node = processes.Process(one, "zarisd", bench.folder / one, config, ports[one]["admin"])
            node.client_port, node.cluster_port, node.host, node.place = ports[one]["client"], ports[one]["cluster"], hosts[one], places[one]
            bench.members.append(node)
            self.nodes.append(node)
        self.url = "zaris://" + ",".join(f"{hosts[one]}:{ports[one]['client']}" for one in names) + "/main"

    def gateway(self, name, address="127.0.0.1", port=None, **overrides):
        """A zaris-gateway of this region, on the test's own machine; `feed_port` is where followers come."""
        certificates, admin, feed = self.bench.certificates, processes.free_port(), port or processes.free_port()
        processes.run_zaris("tls", "dev-ca", "--dir", certificates, "--server", "gateway", "--name", "gateways", "--name", address)
        config = {
            "upstream": {"seeds": [f"zaris://{node.host}:{node.client_port}" for node in self.nodes]},
            "tls": {"cert": str(certificates / "gateway.crt"), "key": str(certificates / "gateway.key"), "ca": str(certificates / "ca.crt")},
            "listeners": {"feed": {"address": f"{address}:{feed}"}, "admin": {"address": f"127.0.0.1:{admin}"}},
            "logging": {"level": "info", "format": "json"},
        }
        processes.merge(config, overrides)
        gateway = processes.Process(name, "zaris-gateway", self.bench.folder / name, config, admin)
        gateway.feed_port = feed
        self.bench.members.append(gateway)
        return gateway

    def start(self):
        if self.etcd.process is None:
            self.etcd.start()
        for node in self.nodes:
            node.start(wait="live")
        self.wait_healthy()
        return self

    def events(self, node, event):
        """The lines of a node's log with that event."""
        found = []
        for line in node.log_path.read_text(errors="replace").splitlines():
            if f'"event":"{event}"' in line:
                try:
                    found.append(json.loads(line))
                except json.JSONDecodeError:
                    pass
        return found

    def running(self):
        return [node for node in self.nodes if node.running()]

    def state(self):
        """What the first node that answers knows of the region (/v1/status, part "region_map"); None: nobody answers."""
        for node in self.running():
            try:
                status = json.loads(node.http("/v1/status", timeout=2) or "null")
            except OSError:
                continue
            if status and status.get("region_map"):
                return status["region_map"]
        return None

    def leader(self):
        state = self.state()
        return next((node for node in self.nodes if state and node.name == state["leader"]), None)

    def owners(self):
        state = self.state()
        return {p["first"]: p["owner"] for p in state["partitions"]} if state else {}

    def healthy(self):
        state = self.state()
        return bool(state and state["partitions"] and all(p["state"] == "healthy" for p in state["partitions"]))

    def balanced(self):
        """Every partition is with its placement primary."""
        state = self.state()
        return self.healthy() and all(p["owner"] == p["primary"] for p in state["partitions"])

    def wait_balanced(self, seconds=120):
        eventually(self.balanced, f"region {self.name} healthy, every partition with its placement primary", seconds)

    def wait_healthy(self, seconds=90):
        eventually(self.healthy, f"region {self.name} healthy", seconds)


def ledger(*arguments, run=(), **options):
    return subprocess.Popen([*run, str(processes.BIN / "cluster_ledger"), *map(str, arguments)], text=True, **options)


def verify(url, file):
    run = subprocess.run([str(processes.BIN / "cluster_ledger"), "verify", "--url", url, "--file", str(file)], capture_output=True, text=True, timeout=300)
    assert run.returncode in (0, 1), run.stderr
    return json.loads(run.stdout)


def cont(node):
    node.signal(signal.SIGCONT)


def stop(node):
    node.signal(signal.SIGSTOP)


__all__ = ["Etcd", "Region", "ledger", "verify", "cont", "stop", "eventually", "os"]
