#!/usr/bin/python3
"""A node that holds when it starts without its data holds again, each time it has lost data since: after its emptiness was accepted and new data came, and after it
was refilled over a link."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import native, processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402


def dies(region):
    region.kill()
    region.start()
    eventually(lambda: region.readiness()[1]["serving"] != "starting", "it has decided what it is")
    assert "holding" in region.readiness()[1]["serving"], f"{region.name} serves its emptiness: {region.readiness()}"


def main():
    with processes.Bench("hold-again") as bench:
        a = bench.region("a", node__on_empty_start="hold").start("ready")
        b = bench.region("b").start("ready")
        native.Client(a.client_port).put(b"k", b"1")
        for _ in range(2):
            dies(a)
            processes.run_zaris("node", "accept-empty", "--yes", "--url", a.url)
            eventually(lambda: a.probe("/readyz"), "it serves")
            native.Client(a.client_port).put(b"k", b"2")
        dies(a)

        # Refilled over a link, and nothing written since.
        native.Client(b.client_port).put_many([(b"k%d" % n, b"v") for n in range(1000)])
        bench.follower(a, [bench.link("back", b)]).start()
        eventually(lambda: a.probe("/readyz"), "it is refilled and serves", 30)
        assert native.Client(a.client_port).get(b"k7") == b"v"
        dies(a)
    print("1 passed, 0 failed")


main()
