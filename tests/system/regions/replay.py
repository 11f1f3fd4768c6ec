#!/usr/bin/python3
"""An empty region becomes an exact copy while the source is written to; interrupted, it goes on where it was."""
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import native, processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402


def main():
    with processes.Bench("replay") as bench:
        a, b = bench.region("a"), bench.region("b")
        a.start("ready")
        b.start("ready")
        source = native.Client(a.client_port)
        keys = 150_000
        for start in range(0, keys, 2000):
            source.put_many([(b"k:%d" % n, b"v" * 100) for n in range(start, start + 2000)])
        writing = True
        written = 0

        def write():
            nonlocal written
            client = native.Client(a.client_port)
            while writing:
                written += len(client.put_many([(b"k:%d" % ((written * 7919 + i) % keys), b"new %d" % (written + i)) for i in range(500)]))

        writer = threading.Thread(target=write)
        writer.start()
        follower = bench.follower(b, [bench.link("l", a, credit="10MiB")]).start()
        # Interrupted as often as it can be caught in the act.
        caught = 0
        for _ in range(40):
            status = processes.link_status(follower, "l")
            progress = status["bootstrap"]
            if status["state"] == "running":
                break
            assert progress["segments_done"] <= progress["segments_total"]
            if status["state"] == "bootstrap" and progress["records"] > 0:
                follower.kill()
                follower.start()
                caught += 1
        writing = False
        writer.join()
        processes.caught_up(follower, "l", 120)
        processes.assert_equal(a, b, bench.folder)
        assert written > 0
        print(f"{keys} keys, {written} writes meanwhile, interrupted {caught} times")
    print("1 passed, 0 failed")


main()
