#!/usr/bin/python3
"""Regions with small limits for keys and values are filled and followed as others are: what travels together may be larger than the largest item."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import native, processes  # noqa: E402

LIMITS = {"limits__key": "1KiB", "limits__value": "2KiB", "segments": 4}


def main():
    with processes.Bench("small-limits") as bench:
        a = bench.region("a", feed__chunk_bytes="4MiB", feed__batch_bytes="4MiB", **LIMITS).start("ready")
        b = bench.region("b", **LIMITS).start("ready")
        lines = bench.folder / "rows.ndjson"
        import base64
        import json
        row = [json.dumps({"key": base64.b64encode(b"k:%d" % n).decode(), "value": base64.b64encode(b"v" * 1000).decode()}) for n in range(20_000)]
        lines.write_text("\n".join(row) + "\n")
        processes.run_zaris("kv", "import", lines, "--url", a.url)
        follower = bench.follower(b, [bench.link("l", a)]).start()
        processes.caught_up(follower, "l")
        processes.assert_equal(a, b, bench.folder)
        # A backlog, which travels in runs.
        follower.stop()
        client = native.Client(a.client_port)
        for start in range(0, 20_000, 1000):
            client.put_many([(b"k:%d" % n, b"w" * 1000) for n in range(start, start + 1000)])
        client.put(b"K" * 1024, b"largest" * 200)
        follower.start()
        processes.caught_up(follower, "l")
        processes.assert_equal(a, b, bench.folder)
        assert sum(processes.link_status(follower, "l")["bootstraps_total"].values()) == 0, "the backlog came as a stream"
    print("1 passed, 0 failed")


main()
