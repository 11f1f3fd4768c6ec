"""Regions and followers as real processes on loopback, each with ports, folders and certificates of its own."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

import yaml

from .ports import free_port
from .waiting import eventually


def binaries():
    """The folder of the built programs: ZARIS_BIN, else the newest build/*/bin."""
    if "ZARIS_BIN" in os.environ:
        return pathlib.Path(os.environ["ZARIS_BIN"])
    root = pathlib.Path(__file__).resolve().parents[3]
    found = sorted(root.glob("build/*/bin/zarisd"), key=lambda p: p.stat().st_mtime)
    if not found:
        raise SystemExit("no built zarisd: build first, or set ZARIS_BIN to the folder that holds it")
    return found[-1].parent


BIN = binaries()


class Process:
    """One program with a config file and a log file; start, kill and stop by its own pid only."""

    def __init__(self, name, program, folder, config, admin_port, arguments=()):
        self.name, self.program, self.folder, self.admin_port = name, program, pathlib.Path(folder), admin_port
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config_path = self.folder / "config.yaml"
        self.log_path = self.folder / "log"
        self.config = config
        self.arguments = list(arguments)
        self.process = None
        self.starts = 0
        self.place = None  # namespaces.Host that it is on; None: this machine

    def write_config(self):
        self.config_path.write_text(yaml.safe_dump(self.config, sort_keys=False))

    def start(self, wait="live", environment=None, prefix=()):
        assert self.process is None, f"{self.name} runs already"
        self.write_config()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([*(self.place.run if self.place else ()), *prefix, str(BIN / self.program), "--config", str(self.config_path), *self.arguments],
                                            stdout=log, stderr=log, env={**os.environ, **(environment or {})})
        self.starts += 1
        if wait:
            eventually(lambda: self.probe("/livez" if wait == "live" else "/readyz"), f"{self.name} {wait} (log: {self.log_path})", 30)
        return self

    def probe(self, path):
        if self.process.poll() is not None:
            raise SystemExit(f"{self.name} ended with status {self.process.returncode}: {self.tail()}")
        return self.http(path) is not None

    def tail(self, size=3000):
        data = self.log_path.read_bytes() if self.log_path.exists() else b""
        return data[-size:].decode(errors="replace")

    def http(self, path, method="GET", timeout=5.0):
        """Of the admin port, asked from its own machine."""
        return self.place.call(self.asked, path, method, timeout) if self.place else self.asked(path, method, timeout)

    def asked(self, path, method, timeout):
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin_port}{path}", method=method, data=b"" if method == "POST" else None,
                                         headers={"Content-Type": "application/json"} if method == "POST" else {})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError:
            return None

    def readiness(self):
        """(is it ready, its checks by name, its notes by name), whatever the answer's status."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin_port}/readyz", headers={"Accept": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                body = json.loads(answer.read())
        except urllib.error.HTTPError as no:
            body = json.loads(no.read())
        return body["ok"], {c["name"]: c["reason"] for c in body["checks"]}, {n["name"]: n["what"] for n in body["notes"]}

    def json(self, path):
        return json.loads(self.http(path) or "null")

    def metrics(self):
        """{name{labels}: value} of /metrics; one series twice would be refused by who scrapes it."""
        found = {}
        for line in self.http("/metrics").splitlines():
            if line and not line.startswith("#"):
                series, _, value = line.rpartition(" ")
                assert series not in found, f"{self.name}: /metrics has {series} twice"
                found[series] = float(value)
        return found

    def running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, which):
        self.process.send_signal(which)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self, seconds=30):
        """SIGTERM; returns the exit status."""
        if self.process is None:
            return None
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.process = None
        return status


class Bench:
    """A folder with certificates in which regions and followers live; use with `with`. Kept when the test fails."""

    def __init__(self, name):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"zaris-{name}-"))
        self.certificates = self.folder / "certificates"
        run_zaris("tls", "dev-ca", "--dir", self.certificates, "--client", "follower", "--client", "tenant", "--client", "reader")
        self.members = []

    def region(self, name, **overrides):
        """overrides: dotted keys as in docs/reference/configuration.md, dots written as double underscores."""
        ports = {k: free_port() for k in ("client", "feed", "admin")}
        config = {
            "region": name, "store": "main", "standalone": True,
            "node": {"name": f"{name}1", "data_dir": str(self.folder / name / "data")},
            "tls": {"cert": str(self.certificates / "server.crt"), "key": str(self.certificates / "server.key"), "ca": str(self.certificates / "ca.crt")},
            "listeners": {"client": {"address": f"127.0.0.1:{ports['client']}"}, "feed": {"address": f"127.0.0.1:{ports['feed']}"},
                          "admin": {"address": f"127.0.0.1:{ports['admin']}"}},
            "logging": {"level": "debug", "format": "json"},
        }
        merge(config, overrides)
        node = Process(name, "zarisd", self.folder / name, config, ports["admin"])
        node.client_port, node.feed_port = ports["client"], ports["feed"]
        node.url = f"zaris://127.0.0.1:{ports['client']}/main"
        self.members.append(node)
        return node

    def link(self, name, source, **more):
        entry = {"name": name, "source": {"url": f"zariss://127.0.0.1:{source.feed_port}"}}
        merge(entry, more)
        return entry

    def follower(self, target, links, name="f1", certificate="follower", **overrides):
        admin = free_port()
        config = {
            "name": name,
            "cursor": {"path": str(self.folder / name / "cursors")},
            "target": {"url": target.url},
            "tls": {"cert": str(self.certificates / f"{certificate}.crt"), "key": str(self.certificates / f"{certificate}.key"),
                    "ca": str(self.certificates / "ca.crt")},
            "listeners": {"admin": {"address": f"127.0.0.1:{admin}"}},
            "logging": {"level": "debug", "format": "json"},
            "links": links,
        }
        merge(config, overrides)
        follower = Process(name, "zaris-follower", self.folder / name, config, admin)
        follower.admin_url = f"http://127.0.0.1:{admin}"
        self.members.append(follower)
        return follower

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for member in reversed(self.members):
            member.kill()
        if kind is None:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"logs and files are kept in {self.folder}")


def merge(into, overrides):
    for key, value in overrides.items():
        *path, last = key.split("__")
        place = into
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value


def run_zaris(*arguments, check=True, program="zaris", timeout=120, **options):
    run = subprocess.run([str(BIN / program), *map(str, arguments)], capture_output=True, text=options.pop("text", True), timeout=timeout, **options)
    if check and run.returncode != 0:
        raise AssertionError(f"zaris {' '.join(map(str, arguments))}: status {run.returncode}: {run.stderr}")
    return run


def link_status(follower, name):
    """What `zaris link show NAME -o json` prints."""
    return json.loads(run_zaris("link", "show", name, "--admin", follower.admin_url, "-o", "json").stdout)


def caught_up(follower, name, seconds=60):
    run_zaris("wait", "link", name, "--caught-up", "--timeout", f"{seconds}s", "--admin", follower.admin_url, timeout=seconds + 10)


def export(region, path):
    with open(path, "wb") as out:
        subprocess.run([str(BIN / "zaris"), "kv", "export", "--url", region.url], stdout=out, check=True, timeout=300)
    return path


def assert_equal(a, b, folder):
    """Both regions' exports are the same to the byte."""
    left, right = export(a, pathlib.Path(folder) / "a.ndjson"), export(b, pathlib.Path(folder) / "b.ndjson")
    same = subprocess.run(["cmp", str(left), str(right)], capture_output=True, text=True)
    if same.returncode != 0:
        diff = subprocess.run(f"diff {left} {right} | head -n 10", shell=True, capture_output=True, text=True).stdout
        raise AssertionError(f"the regions differ: {same.stdout}{same.stderr}{diff}")


def caught_up_soon(follower, name, seconds=120):
    """The first bootstrap is over: the link runs, whatever is written meanwhile."""
    eventually(lambda: link_status(follower, name)["state"] == "running", f"link {name} runs", seconds)
