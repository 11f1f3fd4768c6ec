#!/usr/bin/python3
"""`zaris kv import` into a region whose copies do not confirm: it says so and exits with 7, and what it wrote stands."""
import base64
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness.processes import BIN, Bench  # noqa: E402
from region import Region  # noqa: E402


def zaris(*arguments, stdin=None):
    return subprocess.run([str(BIN / "zaris"), *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=120)


def rows(tag):
    return "".join(json.dumps({"key": base64.b64encode(f"{{{tag}}}:{n}".encode()).decode(), "value": base64.b64encode(b"v%d" % n).decode()}) + "\n" for n in range(3))


with Bench("import-not-met") as bench:
    region = Region(bench, "a", replication={"factor": 3, "ack": "majority", "timeout": "300ms"}).start()
    region.wait_balanced()
    done = zaris("kv", "import", "--url", region.url, stdin=rows("all"))
    assert done.returncode == 0, done.stderr

    left, *others = region.nodes
    for node in others:
        node.kill()
    url = f"zaris://127.0.0.1:{left.client_port}/main"
    # A key that the node that is left owns: the others' have nobody now.
    tag = next(one for one in map(str, range(200)) if zaris("kv", "put", f"{{{one}}}", "v", "--url", url, "--timeout", "1s").returncode == 7)
    for more in ([], ["--keep-going"]):
        done = zaris("kv", "import", *more, "--url", url, stdin=rows(tag))
        assert done.returncode == 7, f"{done.returncode}: {done.stderr}"
        assert "durability_not_met: 3 of 3 rows are written at their owners" in done.stderr, done.stderr
        assert "imported 3 rows" in done.stderr, done.stderr
    done = zaris("kv", "get", f"{{{tag}}}:2", "--url", url)
    assert (done.returncode, done.stdout.strip()) == (0, "v2"), done.stderr
    print("1 passed, 0 failed")
