#!/usr/bin/python3
"""zarisd as a process: configuration errors and exit codes, probes, what it tells the service manager, reload, drain, what
a restart says of lost data, metrics that promtool accepts."""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from system.harness.native import Client, Refused  # noqa: E402
from system.harness.processes import BIN, Bench, free_port  # noqa: E402
from system.harness.waiting import eventually  # noqa: E402

passed = failed = 0


def check(what, good, detail=""):
    global passed, failed
    passed, failed = (passed + 1, failed) if good else (passed, failed + 1)
    if not good:
        print(f"{what}: {detail}", file=sys.stderr)


def zarisd(*arguments, environment=None):
    run = subprocess.run([str(BIN / "zarisd"), *arguments], capture_output=True, text=True, timeout=60, env={**os.environ, **(environment or {})})
    return run.returncode, run.stdout, run.stderr


def command_line(folder):
    status, out, _ = zarisd("--version")
    check("--version", status == 0 and out.startswith("zarisd "), out)
    status, out, _ = zarisd("--help")
    check("--help has examples", status == 0 and "Examples:" in out, out)
    status, _, err = zarisd("--nonsense")
    check("an unknown flag is wrong usage", status == 2, (status, err))
    bad = folder / "bad.yaml"
    bad.write_text("regoin: a\nmemory:\n  max_bytes: 5\n")
    status, _, err = zarisd("--config", str(bad), "--check-config")
    check("mistakes: exit 3", status == 3, status)
    check("mistakes: place and nearest key", f"{bad}:1:1: regoin: unknown key; did you mean region?" in err, err)
    check("mistakes: all at once", f"{bad}:3:14: memory.max_bytes" in err and "node.data_dir: is missing" in err, err)
    status, _, err = zarisd("--set", f"node.data_dir={folder}/x", "--set", "listeners.client.address=0.0.0.0:7861")
    check("no TLS beyond loopback: exit 3", status == 3 and "insecure" in err, err)
    check("…and nothing was started", not (folder / "x").exists())
    status, out, _ = zarisd("--set", f"node.data_dir={folder}/x", "--print-config", environment={"ZARIS_REGION": "eu"})
    check("--print-config says where values come from", status == 0 and "region: eu  # environment variable ZARIS_REGION" in out, out)
    status, out, _ = zarisd("--set", f"node.data_dir={folder}/x", "--check-config")
    check("--check-config: exit 0", status == 0, out)
    status, _, err = zarisd("--set", f"node.data_dir={folder}/x", "--set", f"listeners.admin.address=127.0.0.1:{free_port()}", "--probe", "live")
    check("--probe without a process: 4", status == 4, err)
    status, _, err = zarisd("--set", f"node.data_dir={folder}/x", "--set", "memory.max_bytes=500TiB")
    check("more memory than the machine has: exit 3", status == 3 and "memory_too_small" in err, err)


def life(bench):
    path = str(bench.folder / "notify")
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(path)
    manager.settimeout(20)
    heard = []

    def told(what):
        while not any(what in message for message in heard):
            heard.append(manager.recv(65536).decode())
        return True

    a = bench.region("a", node__on_empty_start="hold")
    a.start("ready", environment={"NOTIFY_SOCKET": path})
    check("READY=1", told("READY=1"))
    arguments = ["--config", str(a.config_path), "--probe", "ready"]
    check("--probe ready: 0", zarisd(*arguments)[0] == 0)
    check("/readyz?verbose", "[+]serving ok" in a.http("/readyz?verbose"))
    client = Client(a.client_port)
    client.put(b"k", b"v")
    check("what was put is read", client.get(b"k") == b"v")

    second = subprocess.run([str(BIN / "zarisd"), "--config", str(a.config_path)], capture_output=True, text=True, timeout=60)
    check("a second process on one data directory: exit 3", second.returncode == 3 and "data_dir_locked" in second.stderr, (second.returncode, second.stderr))

    text = a.http("/metrics")
    lint = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    check("promtool finds nothing", lint.returncode == 0 and not lint.stdout + lint.stderr, lint.stdout + lint.stderr)
    metrics = a.metrics()
    check("keys", metrics["zaris_keys"] == 1)
    check("puts are counted", metrics['zaris_commands_total{command="put",result="ok"}'] == 1)
    states = [v for k, v in metrics.items() if k.startswith("zaris_node_state{")]
    check("exactly one state", sorted(states) == [0, 0, 0, 1], states)
    page = (pathlib.Path(__file__).resolve().parents[3] / "docs/reference/metrics.md").read_text()
    families = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    undocumented = {f for f in families if f"`{f}`" not in page}
    check("every family is in the reference", not undocumented, undocumented)
    check("/v1/status", a.json("/v1/status")["live_keys"] == 1)

    # Reload: what may change is taken over; a mistake, or a key that needs a restart, changes nothing.
    def reload(expect, what):
        a.write_config()
        heard.clear()
        a.signal(signal.SIGHUP)
        check(what, told("RELOADING=1") and told("READY=1"))
        eventually(lambda: expect in a.tail(20000), what)

    a.config["logging"]["level"] = "info"
    reload("config_reloaded", "a reload that may be")
    a.config["segments"] = 512
    a.config["logging"]["level"] = "debug"
    reload("these keys need a restart: segments", "a key that needs a restart")
    check("the refusal is a metric", a.metrics()["zaris_config_last_reload_successful"] == 0)
    a.config["segments"] = 256
    a.config["nonsense"] = 1
    reload("nonsense: unknown key", "a mistake")
    del a.config["nonsense"]
    a.config["logging"]["level"] = "info"
    check("…and it serves as before", client.get(b"k") == b"v")
    check("refused twice", a.metrics()['zaris_config_reloads_total{result="refused"}'] == 2)

    heard.clear()
    status = a.stop()
    check("a clean stop: 0", status == 0, status)
    check("STOPPING=1", told("STOPPING=1"))

    # It had data and comes back empty: told to hold, it answers nothing about keys until that is accepted.
    a.start("live")
    check("it says what it lost", "restarted_empty" in a.tail(20000) and "stopped cleanly with 1 keys" in a.tail(20000))
    check("not ready while it holds", a.http("/readyz") is None)
    client = Client(a.client_port)
    try:
        client.get(b"k")
        check("a held node answers no reads", False)
    except Refused as refused:
        check("a held node answers no reads", refused.status == "Unavailable", refused)
    client.close()
    a.kill()
    del a.config["node"]["on_empty_start"]
    a.start("ready")
    check("serve is the default", Client(a.client_port).get(b"k") is None)
    a.kill()

    # Another region under the same data directory is refused.
    a.config["segments"] = 512
    a.write_config()
    other = subprocess.run([str(BIN / "zarisd"), "--config", str(a.config_path)], capture_output=True, text=True, timeout=60)
    check("other settings: exit 3 with both values", other.returncode == 3 and "256" in other.stderr and "512" in other.stderr, other.stderr)


with tempfile.TemporaryDirectory() as name:
    command_line(pathlib.Path(name))
with Bench("node") as the_bench:
    life(the_bench)
    if failed:
        print(f"{passed} passed, {failed} failed")
        sys.exit(1)
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
