#!/usr/bin/python3
"""A region of three loses all its nodes at once, and its operator accepts the loss: the standby of another region keeps everything that it holds, the link says
`source_reset` and raises its alert, and only an operator's word makes the standby what the source is now.
"""
import base64
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import native, processes  # noqa: E402
from harness.waiting import eventually, paced  # noqa: E402
import region as region_of_several  # noqa: E402

KEYS = 12_000  # more in every segment than a copy may remove without asking
HELD = 'zaris_link_held{link="l",reason="source_reset"}'  # the alert ZarisLinkHeld is for it


def fill(bench, region, prefix, count):
    rows = bench.folder / "rows"
    rows.write_text("".join(json.dumps({"key": text(f"{prefix}{n}"), "value": text(f"value {n}")}) + "\n" for n in range(count)))
    processes.run_zaris("kv", "import", rows, "--url", region.url)


def text(words):
    return base64.b64encode(words.encode()).decode()


def reason(follower):
    return processes.link_status(follower, "l")["reason"].partition(":")[0]


def main():
    with processes.Bench("region-lost") as bench:
        a = region_of_several.Region(bench, "a", feed=True, failover__cooldown="1s").start()
        b = bench.region("b", segments=64).start("ready")
        gateway = a.gateway("gateway").start("ready")
        fill(bench, a, "k:", KEYS)
        follower = bench.follower(b, [bench.link("l", gateway)]).start()
        processes.caught_up(follower, "l")
        kept = processes.export(b, bench.folder / "kept").read_bytes()
        assert kept.count(b"\n") == KEYS
        assert HELD not in follower.metrics() or follower.metrics()[HELD] == 0

        for node in a.nodes:
            node.kill()
        for node in a.nodes:
            node.start("live")
        eventually(lambda: all(node.metrics()["zaris_cluster_partitions_without_owner"] == len(a.nodes) for node in a.nodes), "nobody owns anything", 90)
        assert processes.link_status(follower, "l")["state"] == "backoff", processes.link_status(follower, "l")
        processes.run_zaris("node", "accept-empty", "--url", a.url, "--yes")
        a.wait_healthy()
        eventually(lambda: processes.link_status(follower, "l")["state"] == "held", "the link is held", 60)
        fill(bench, a, "new:", 50)  # the empty source is written to again: none of that is a reason either
        for _ in paced(0.2, 6):  # a held link is looked at every five seconds
            eventually(lambda: reason(follower) == "source_reset", "held for that reason", 30)
        status = processes.link_status(follower, "l")
        assert status["state"] == "held" and not status["caught_up"] and "accept-source" in status["next_step"], status
        assert follower.metrics()[HELD] == 1 and not follower.readiness()[0]
        assert processes.export(b, bench.folder / "now").read_bytes() == kept, "the standby was touched"

        processes.run_zaris("link", "accept-source", "l", "--yes", "--admin", follower.admin_url)
        eventually(lambda: reason(follower) == "large_removal", "it asks once more before it removes so much", 60)
        assert native.Client(b.client_port).get(b"k:1") == b"value 1"
        processes.run_zaris("link", "accept-removal", "l", "--yes", "--admin", follower.admin_url)
        processes.caught_up(follower, "l")
        processes.assert_equal(a, b, bench.folder)
    print("1 passed, 0 failed")


main()
