#!/usr/bin/python3
"""A follower that was away while ten times the log in memory was written goes on from log.spill_path, without a copy. Away while more was written than memory
and disk keep, it takes over what changed and no more: what crosses follows the changes, not the content; likewise when keys were deleted meanwhile. A disk that is
full costs history and nothing else. Prints what crossed in each case.

    history.py [--keys N] [--value BYTES]
"""
import argparse
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import native, processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402

SECONDS = 120
MIB = 1 << 20


def metric(process, name, **labels):
    return sum(value for series, value in process.metrics().items()
               if series.split("{")[0] == name and all(f'{k}="{v}"' in series for k, v in labels.items()))


class Story:
    def __init__(self, bench, options):
        self.bench, self.options, self.random = bench, options, random.Random(7)
        self.spill = bench.folder / "spill"
        self.a = bench.region("a", segments=16, log__budget_bytes="2MiB", log__pin_bytes="32MiB", log__spill_path=str(self.spill), log__spill_bytes="64MiB").start("ready")
        self.b = bench.region("b", segments=16).start("ready")
        self.follower = bench.follower(self.b, [bench.link("main", self.a)])
        self.client = native.Client(self.a.client_port)

    def key(self, n):
        return b"key:%07d" % n

    def put(self, numbers):
        batch = []
        for n in numbers:
            batch.append((self.key(n), self.random.randbytes(self.options.value)))
            if len(batch) == 500:
                self.client.put_many(batch)
                batch = []
        self.client.put_many(batch)

    def status(self):
        return self.follower.json("/v1/links/main")

    def in_step(self, what):
        eventually(lambda: self.status()["caught_up"], f"{what}: caught up", SECONDS)
        assert self.digest(self.a) == self.digest(self.b), f"{what}: the two regions differ"

    def digest(self, region):
        return region.json("/v1/status")["digest"]

    def away(self, what, change):
        """The follower is gone while `change` happens. What its return cost: bytes that the source sent, copies begun by reason, records found in place."""
        self.follower.kill()
        change()
        before = metric(self.a, "zaris_feed_sent_bytes_total")
        self.follower.start("ready")
        self.in_step(what)
        sent = metric(self.a, "zaris_feed_sent_bytes_total") - before
        copies = metric(self.follower, "zaris_link_bootstraps_total")
        kept = metric(self.follower, "zaris_link_kept_entries_total")
        print(f"{what}: {sent / MIB:.1f} MiB crossed, {copies:.0f} copies begun, {kept:.0f} records found in place", flush=True)
        return sent, copies, kept


def full_disk(bench):
    """With less room than log.spill_bytes: writers go on, what is lost of the log is said, and the disk is used again once there is room."""
    small = bench.folder / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], stderr=subprocess.DEVNULL).returncode != 0:
        print("no right to mount a small disk: what happens when it fills up is left to the unit tests", flush=True)
        return
    try:
        c = bench.region("c", segments=16, log__budget_bytes="2MiB", log__pin_bytes="32MiB", log__spill_path=str(small / "spill"), log__spill_bytes="64MiB").start("ready")
        client = native.Client(c.client_port)

        def write():
            pairs = [(b"k%d" % n, b"v" * 1000) for n in range(500)]
            assert len(client.put_many(pairs)) == 500, "a write was refused for the sake of the log"

        (small / "ballast").write_bytes(b"x" * 4 * MIB)
        eventually(lambda: write() or metric(c, "zaris_log_spill_failures_total", operation="write") > 0, "the disk is full", SECONDS)
        eventually(lambda: write() or metric(c, "zaris_log_spill_lost_entries_total") > 0, "log is lost for it", SECONDS)
        eventually(lambda: "spill_failing" in c.log_path.read_text(), "it is said", SECONDS)
        (small / "ballast").unlink()
        written = metric(c, "zaris_log_spill_written_bytes_total")
        eventually(lambda: write() or metric(c, "zaris_log_spill_written_bytes_total") > written, "the disk is used again", SECONDS)
        follower = bench.follower(bench.region("d").start("ready"), [bench.link("full", c)], name="f2").start("ready")
        eventually(lambda: follower.json("/v1/links/full")["caught_up"], "a link from there: caught up", SECONDS)
        c.stop()
        print("a disk that fills up: writers went on, and it was used again", flush=True)
    finally:
        for region in bench.members:
            region.kill()
        subprocess.run(["umount", str(small)], check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=60_000)
    parser.add_argument("--value", type=int, default=300)
    options = parser.parse_args()
    with processes.Bench("history") as bench:
        story = Story(bench, options)
        content = options.keys * (options.value + 60)
        story.put(range(options.keys))
        story.follower.start("ready")
        story.in_step("the first copy")
        print(f"content: {content / MIB:.1f} MiB", flush=True)

        # Ten times the log in memory: all of it is on the disk.
        changed = 20 * MIB // (options.value + 60)
        sent, copies, _ = story.away("a cut of ten times the log in memory", lambda: story.put(range(changed)))
        assert copies == 0, "it was copied, although the log on the disk reached back"
        assert sent < 1.3 * changed * (options.value + 60), "more crossed than was written"
        assert metric(story.a, "zaris_log_spill_read_bytes_total") > 10 * MIB

        # Beyond the disk: the same few keys, over and over.
        few = options.keys // 20

        def much():
            for _ in range(110 * MIB // (few * (options.value + 60))):
                story.put(range(few))

        sent, copies, kept = story.away("a cut of more than memory and disk keep, in a twentieth of the keys", much)
        assert copies == 16, f"{copies} copies were begun, not one for each segment"
        assert sent < content / 6, "more crossed than a sixth of the content"
        assert kept > options.keys * 0.9

        # Likewise, and keys are gone whose deletion no log tells any more.
        def much_and_deletes():
            gone = [story.key(n) for n in range(few, options.keys, 50)]
            story.client.put_many([(key, None) for key in gone])
            much()

        sent, copies, kept = story.away("likewise, and a fiftieth of the keys deleted", much_and_deletes)
        assert copies == 16
        assert sent < content / 4, "more crossed than a quarter of the content"

        full_disk(bench)
    print("1 passed, 0 failed")


main()
