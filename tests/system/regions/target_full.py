#!/usr/bin/python3
"""A target that was filled to its ceiling and a source that has shrunk since: the way that capacity_exceeded shows ends with both equal."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import native, processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402


def main():
    with processes.Bench("target-full") as bench:
        a, b = bench.region("a").start("ready"), bench.region("b", memory__max_bytes="8MiB", memory__eviction="off").start("ready")
        source = native.Client(a.client_port)
        for start in range(0, 6000, 1000):
            source.put_many([(b"k:%d" % n, b"v" * 500) for n in range(start, start + 1000)])
        follower = bench.follower(b, [bench.link("l", a)]).start()
        processes.caught_up(follower, "l")
        for start in range(6000, 20_000, 1000):
            source.put_many([(b"k:%d" % n, b"v" * 500) for n in range(start, start + 1000)])
        eventually(lambda: "capacity_exceeded" in (processes.link_status(follower, "l")["reason"] or ""), "the target is full", 30)
        said = processes.link_status(follower, "l")["next_step"]
        assert "outside this link's scope" in said, said
        processes.run_zaris("kv", "del", *(f"k:{n}" for n in range(2000, 12_000)), "--url", a.url)
        processes.run_zaris("kv", "del", *(f"k:{n}" for n in range(12_000, 20_000)), "--url", a.url)

        follower.stop()
        processes.run_zaris("kv", "del", "--all", "--yes", "--url", b.url)
        processes.run_zaris("--path", bench.folder / "f1" / "cursors", "rewind", "l", "--yes", program="zaris-cursor")
        follower.start()
        processes.caught_up(follower, "l")
        processes.assert_equal(a, b, bench.folder)
    print("1 passed, 0 failed")


main()
