#!/usr/bin/python3
"""Regions in a chain, D to E to F, are not carried on, and it is said: the link out of E is held as soon as a link into E writes what it asks for, instead of looking
caught up while it lacks that. It stays held when E's log is trimmed past that place, and copies once more by an operator's word; so does a replay, by itself. A link
out of E with a scope of its own goes on."""
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
        d, f = (bench.region(name).start("ready") for name in "df")
        e = bench.region("e", log__budget_bytes="1MiB", log__pin_bytes="1MiB").start("ready")
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

        # The log goes on without the link that is held: nothing is copied until somebody has decided.
        before = processes.link_status(out, "chain")["bootstraps_total"]
        client = native.Client(e.client_port)
        for start in range(0, 40_000, 2000):
            client.put_many([(b"big:%d" % n, b"v" * 100) for n in range(start, start + 2000)])

        def ends():
            return sum(n for series, n in out.metrics().items() if "stream_ends" in series and ("below_floor" in series or "too_slow" in series))

        eventually(lambda: ends() > 0, "the link has been tried again below the floor", 30)
        assert state(out, "chain")[0] == "held", processes.link_status(out, "chain")
        assert processes.link_status(out, "chain")["bootstraps_total"] == before, processes.link_status(out, "chain")["bootstraps_total"]

        # By a word once more; and held again by the next.
        assert out.http("/v1/links/chain/accept-source", "POST")
        processes.caught_up(out, "chain")
        assert native.Client(f.client_port).get(b"t1:live") is not None
        processes.assert_equal(e, f, bench.folder)
        native.Client(d.client_port).put_many([(b"t1:%d" % n, b"v") for n in range(1000)])
        eventually(lambda: state(out, "chain")[0] == "held", "the link out of E is held again", 20)

        # A replay that broke off before them.
        h = bench.region("h").start("ready")
        begun = bench.follower(h, [bench.link("replay.copy", e)], name="replay").start()
        processes.caught_up(begun, "replay.copy")
        begun.stop()
        native.Client(d.client_port).put_many([(b"t1:%d" % n, b"w") for n in range(1000)])
        processes.caught_up(into, "t1")
        pair = [str(bench.certificates / name) for name in ("ca.crt", "follower.crt", "follower.key")]
        processes.run_zaris("replay", "--from", f"zariss://127.0.0.1:{e.feed_port}", "--to", h.url, "--ca", pair[0], "--cert", pair[1], "--key", pair[2], "--timeout", "60s",
                            "--compare", e.url)
        processes.assert_equal(e, h, bench.folder)
    print("1 passed, 0 failed")


main()
