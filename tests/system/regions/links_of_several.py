#!/usr/bin/python3
"""The verbs of a link whose target is a region of several nodes: what the region itself has written is never taken without a word, wherever it lies; and a link
that was dropped while a node was dead begins from nothing when it is begun again."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402
import region as region_of_several  # noqa: E402


def export(url, path, prefix):
    path.write_bytes(processes.run_zaris("kv", "export", "--prefix", prefix, "--url", url, text=False).stdout)
    return path.read_bytes()


def load(bench, url, rows):
    import base64
    import json
    file = bench.folder / "rows"
    file.write_text("".join(json.dumps({"key": base64.b64encode(k).decode(), "value": base64.b64encode(v).decode()}) + "\n" for k, v in rows))
    processes.run_zaris("kv", "import", file, "--url", url)


def own_keys_of_one_node(bench, a, b):
    """All of them in one slot, with one owner: the other two know nothing of them."""
    for number in range(6):
        prefix = f"own{number}:"
        load(bench, b.url, [(b"%s{z}%d" % (prefix.encode(), n), b"mine") for n in range(20)])
        link = bench.follower(b, [bench.link(f"l{number}", a, scope={"prefixes": [prefix]})], name=f"f{number}").start()
        eventually(lambda: (processes.link_status(link, f"l{number}")["reason"] or "").startswith("scope_holds_data"), "held before anything is taken", 20)
        link.stop()
        assert export(b.url, bench.folder / "own", prefix).count(b"\n") == 20
        shown = processes.run_zaris("status", "--url", b.url, "-o", "json", check=False).stdout
        assert f'"l{number}"' not in shown, "a refused link is registered nowhere"


def dropped_while_a_node_was_dead(bench, a, b):
    load(bench, a.url, [(b"t1:%d" % n, b"a") for n in range(2000)])
    follower = bench.follower(b, [bench.link("l", a, scope={"prefixes": ["t1:"]}, adopt_data=True)], name="dropped").start()
    processes.caught_up(follower, "l")
    follower.stop()
    dead = b.nodes[1]
    dead.kill()
    processes.run_zaris("link", "drop", "l", "--url", b.url, "--yes")
    dead.start("live")
    b.wait_healthy()
    load(bench, b.url, [(b"t1:%d" % n, b"b's own") for n in range(500)] + [(b"t1:new:%d" % n, b"b's own") for n in range(200)])
    processes.run_zaris("kv", "del", *(f"t1:{n}" for n in range(500, 700)), "--url", b.url)
    follower.start()
    processes.caught_up(follower, "l")
    assert export(a.url, bench.folder / "left", "t1:") == export(b.url, bench.folder / "right", "t1:"), "caught up, and not equal"
    follower.stop()


def scope_dropped_while_a_node_is_dead(bench, a, b):
    follower = bench.follower(b, [bench.link("l", a, scope={"prefixes": ["t1:"]}, adopt_data=True)], name="narrowed").start()
    processes.caught_up(follower, "l")
    follower.stop()
    follower.config["links"][0]["scope"]["prefixes"] = ["t1:1"]
    follower.start()
    processes.caught_up(follower, "l")
    load(bench, b.url, [(b"t1:2:mine", b"b's own")])
    b.nodes[2].kill()
    eventually(lambda: len(set(b.owners().values())) == 2 and all(p["state"] != "recovering" for p in b.state()["partitions"]), "the two others own everything", 30)
    eventually(lambda: processes.run_zaris("link", "drop-scope", "l", "--url", b.url, "--yes", check=False).returncode == 0, "what left the scope is dropped", 30)
    expected = export(a.url, bench.folder / "left", "t1:1")
    assert export(b.url, bench.folder / "right", "t1:1") == expected
    left = export(b.url, bench.folder / "all", "t1:")
    assert left.count(b"\n") == expected.count(b"\n") + 1, "and B's own key"


def main():
    with processes.Bench("links-of-several") as bench:
        a = bench.region("a").start("ready")
        b = region_of_several.Region(bench, "b", replication={"factor": 3, "ack": "replica"}).start()
        own_keys_of_one_node(bench, a, b)
        dropped_while_a_node_was_dead(bench, a, b)
        scope_dropped_while_a_node_is_dead(bench, a, b)
    print("1 passed, 0 failed")


main()
