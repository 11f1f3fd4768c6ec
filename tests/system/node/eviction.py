#!/usr/bin/python3
"""A node that nears its memory ceiling as a cache says in its log that it lets keys go, and its metric counts them; with memory.eviction off nothing goes, and
a write is refused until there is room."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import native, processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402

MEMORY = {"memory__max_bytes": "16MiB", "log__budget_bytes": "1MiB"}
KEYS = 6000  # of 4 KiB: half as much again as there is room for


def fill(region):
    return native.Client(region.client_port).put_many([(b"k%d" % n, b"v" * 4096) for n in range(KEYS)])


def main():
    with processes.Bench("eviction") as bench:
        cache = bench.region("cache", **MEMORY).start("ready")
        assert len(fill(cache)) == KEYS
        eventually(lambda: '"event":"evicting"' in cache.log_path.read_text(), "it says so", 20)
        metrics = cache.metrics()
        assert metrics["zaris_evicted_keys_total"] > 0 and metrics["zaris_keys"] < KEYS, metrics["zaris_keys"]

        store = bench.region("store", memory__eviction="off", **MEMORY).start("ready")
        kept = len(fill(store))
        assert 0 < kept < KEYS, kept
        assert store.metrics()["zaris_keys"] == kept and store.metrics()["zaris_evicted_keys_total"] == 0
        assert '"event":"evicting"' not in store.log_path.read_text()
    print("1 passed, 0 failed")


main()
