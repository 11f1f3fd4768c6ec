#!/usr/bin/python3
"""An empty region becomes an exact copy while the source is written to; interrupted, it goes on where it was; progress and time left are shown. A replay
that broke off takes nothing that others have written since, and follows a source that has become much smaller.

    replay.py [--keys N] [--rate N] [--interrupt N]   keys before it begins; writes a second meanwhile (0: as many as go); kills of the follower
"""
import argparse
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import native, processes  # noqa: E402
from harness.waiting import paced  # noqa: E402

BATCH = 500


class Writer:
    def __init__(self, region, keys, rate):
        self.client, self.keys, self.rate, self.written, self.over = native.Client(region.client_port), keys, rate, 0, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        for _ in paced(BATCH / self.rate if self.rate else 0, 600):
            if self.over:
                return
            self.client.put_many([(b"k:%d" % ((self.written * 7919 + i) % self.keys), b"new %d" % (self.written + i)) for i in range(BATCH)])
            self.written += BATCH

    def end(self):
        self.over = True
        self.thread.join()


def broken_off(bench):
    small = {"log__budget_bytes": "64KiB", "log__pin_bytes": "64KiB", "segments": 16}
    c, d = bench.region("c", **small), bench.region("d", **small)
    c.start("ready")
    d.start("ready")
    source, target = native.Client(c.client_port), native.Client(d.client_port)
    source.put_many([(b"k:%d" % n, b"v") for n in range(4000)])
    begun = bench.follower(d, [bench.link("replay.copy", c)], name="broken-off").start()
    processes.caught_up(begun, "replay.copy")
    begun.stop()

    ca, certificate, key = (bench.certificates / name for name in ("ca.crt", "follower.crt", "follower.key"))
    replay = ("replay", "--from", f"zariss://127.0.0.1:{c.feed_port}", "--to", d.url, "--ca", ca, "--cert", certificate, "--key", key, "--timeout", "60s")
    target.put(b"k:7", b"the target's own")
    run = processes.run_zaris(*replay, check=False)
    assert run.returncode == 9 and "target_not_empty" in run.stderr and "1 records" in run.stderr, run.stderr
    assert target.get(b"k:7") == b"the target's own"
    target.delete(b"k:7")

    for n in range(4000):
        source.delete(b"k:%d" % n)
    for n in range(3000):
        source.put(b"filler", b"x" * 100)  # the log does not reach back
    processes.run_zaris(*replay, "--compare", c.url, check=True)
    processes.assert_equal(c, d, bench.folder)
    print("a replay that broke off: asks about what others wrote, follows a source that shrank")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=150_000)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--interrupt", type=int, default=30)
    arguments = parser.parse_args()
    with processes.Bench("replay") as bench:
        a, b = bench.region("a"), bench.region("b")
        a.start("ready")
        b.start("ready")
        source = native.Client(a.client_port)
        for start in range(0, arguments.keys, 2000):
            source.put_many([(b"k:%d" % n, b"v" * 100) for n in range(start, start + 2000)])
        writer = Writer(a, arguments.keys, arguments.rate)
        follower = bench.follower(b, [bench.link("l", a, credit="10MiB")]).start()
        # Interrupted as often as it can be caught in the act.
        caught, shown, begun = 0, [], writer.written
        while True:
            status = processes.link_status(follower, "l")
            progress = status["bootstrap"]
            if status["state"] == "running":
                break
            assert progress["segments_done"] <= progress["segments_total"]
            if status["state"] != "bootstrap" or progress["records"] == 0:
                continue
            if progress["eta_seconds"] is not None:
                shown.append(progress["eta_seconds"])
                assert 0 <= shown[-1] < 3600, f"{shown[-1]} s left"
            if caught < arguments.interrupt:
                follower.kill()
                follower.start()
                caught += 1
        meanwhile = writer.written - begun
        writer.end()
        processes.caught_up(follower, "l", 120)
        processes.assert_equal(a, b, bench.folder)
        assert meanwhile > 0
        print(f"{arguments.keys} keys, {meanwhile} writes meanwhile, interrupted {caught} times, time left shown {len(shown)} times, at most {max(shown, default=0):.1f} s")
        broken_off(bench)
    print("2 passed, 0 failed")


main()
