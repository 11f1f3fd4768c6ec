#!/usr/bin/python3
"""A scoped reader that was away while only others' keys changed, so many that the log has let them go, has missed nothing: it goes on
where it was, without a walk. A reader with the full scope that was away finds all of it."""
import asyncio
import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import reader as feed  # noqa: E402
from harness import native, processes  # noqa: E402

SECONDS = 60


async def away(bench, a, prefixes, expected):
    source = native.Client(a.client_port)
    source.put_many([(b"t1:%d" % n, b"one") for n in range(1000)])

    def session():
        folder = bench.certificates
        return feed.Reader(a.feed_port, folder / "ca.crt", folder / "reader.crt", folder / "reader.key", prefixes=prefixes, link="away")

    async with session() as reader:
        await reader.subscribe_all(bootstrap=True)
        await asyncio.wait_for(reader.until(reader.caught_up()), SECONDS)
        await reader.ack()
        await asyncio.wait_for(reader.until(reader.caught_up()), SECONDS)  # the Ack has been read when a later Ping is echoed
        left = {n: s.named() for n, s in reader.segments.items()}

    source.put_many([(b"t2:%d" % n, b"x" * 300) for n in range(6000)])
    source.put_many([(b"t1:back:%d" % n, b"one") for n in range(300)])
    records = []
    async with session() as reader:
        await reader.subscribe_all(left)
        await asyncio.wait_for(reader.until(lambda: all(s.answered for s in reader.segments.values())), SECONDS)
        ended = collections.Counter(s.ended for s in reader.segments.values() if s.ended)
        assert not ended, f"scope {prefixes}: segments ended with {dict(ended)}, although their reader was away for a moment only"
        await asyncio.wait_for(reader.until(reader.caught_up(), lambda event: records.extend(event.records)), SECONDS)
    keys = {r.key for r in records}
    assert len(keys) == len(records) == expected, f"scope {prefixes}: {len(records)} records of {len(keys)} keys, not {expected}"


def main():
    with processes.Bench("reader-away") as bench:
        for name, prefixes, expected in (("a", (), 6300), ("b", (b"t1:",), 300)):
            asyncio.run(away(bench, bench.region(name, log__budget_bytes="64KiB").start("ready"), prefixes, expected))
    print("1 passed, 0 failed")


main()
