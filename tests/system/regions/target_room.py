#!/usr/bin/python3
"""The room that a target of several nodes has is that of all its owners together: a source that no one of them could hold is copied, and the regions are equal."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import native, processes  # noqa: E402
import region as region_of_several  # noqa: E402


def main():
    with processes.Bench("target-room") as bench:
        a = bench.region("a", segments=64).start("ready")
        b = region_of_several.Region(bench, "b", memory__max_bytes="32MiB").start()
        for part in range(4):  # 48 MiB
            native.Client(a.client_port).put_many([(b"k%d-%d" % (part, n), b"v" * 4096) for n in range(3000)])
        follower = bench.follower(b, [bench.link("l", a)]).start()
        processes.caught_up(follower, "l")
        processes.assert_equal(a, b, bench.folder)
    print("1 passed, 0 failed")


main()
