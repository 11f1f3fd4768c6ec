#!/usr/bin/python3
"""Regions in a chain, D to E to F, are not carried on, and it is said: the link out of E is held as soon as a link into E writes what it asks for, instead of looking
caught up while it lacks that. A link out of E with a scope of its own goes on."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import native, processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402


def state(follower, link):
    status = processes.link_status(follower, link)
    return status["state"], status["reason"]


def main():
    with processes.Bench("chain") as bench:
        d, e, f = (bench.region(name).start("ready") for name in "def")
        g = bench.region("g").start("ready")
        native.Client(e.client_port).put_many([(b"own:%d" % n, b"e") for n in range(100)])
        out = bench.follower(f, [bench.link("chain", e)], name="out").start()
        processes.caught_up(out, "chain")
        into = bench.follower(e, [bench.link("t1", d, scope={"prefixes": ["t1:"]})], name="into").start()
        processes.caught_up(into, "t1")
        assert state(out, "chain")[0] == "running", "nothing has been written by the other link yet"

        native.Client(d.client_port).put(b"t1:live", b"v")
        eventually(lambda: state(out, "chain")[0] == "held", "the link out of E is held", 20)
        link = processes.link_status(out, "chain")
        assert link["reason"].startswith("source_standby") and "link t1 of cluster" in link["reason"], link["reason"]
        assert not link["caught_up"]
        assert not out.readiness()[0], "the follower does not call itself ready"
        assert native.Client(f.client_port).get(b"t1:live") is None

        # What no link writes goes on, and what nobody asked for is passed over.
        own = bench.follower(g, [bench.link("own", e, scope={"prefixes": ["own:"]})], name="own").start()
        processes.caught_up(own, "own")
        native.Client(e.client_port).put(b"own:live", b"v")
        native.Client(d.client_port).put(b"t1:more", b"v")
        eventually(lambda: native.Client(g.client_port).get(b"own:live") is not None, "a disjoint scope goes on", 20)
        processes.caught_up(own, "own")
    print("1 passed, 0 failed")


main()
