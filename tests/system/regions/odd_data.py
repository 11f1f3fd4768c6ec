#!/usr/bin/python3
"""Keys and values are bytes: whatever is written in A is byte for byte in B, by the live stream and by a bootstrap.

    odd_data.py [--tagged N]     keys under one hash tag (the suite: 200,000; the acceptance: 1,000,000)
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import native, processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402

KEY_MAX, VALUE_MAX = 64 << 10, 1 << 20


def odd_pairs():
    yield b"", b"the empty key"
    yield b"empty value", b""
    for b in range(256):
        yield bytes([b]), bytes([b])
        yield b"in\x00side:" + bytes([b]), bytes([255 - b]) * 3
    for key in (b"{}a", b"a{}b{c}", b"{{a}}", b"a{b", b"}{a", b"{a}{b}", b"{", b"}", b"\r\n", b"a\r\nb", b"\xff\xfe\x80", b"\xc3\x28", "schlüssel €".encode()):
        yield key, key[::-1]
    yield b"k" * KEY_MAX, b"key at the limit"
    yield b"value at the limit", bytes(range(256)) * (VALUE_MAX // 256)
    yield b"*3\r\n$3\r\nSET\r\n", b'{"json": "\\u0000"}'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tagged", type=int, default=200_000)
    arguments = parser.parse_args()
    with processes.Bench("odd") as bench:
        limits = {"limits__value": "1MiB"}
        a, b = bench.region("a", **limits), bench.region("b", **limits)
        a.start("ready")
        b.start("ready")
        source = native.Client(a.client_port)
        pairs = list(odd_pairs())
        for key, value in pairs[::2]:  # half before the follower, half while it runs
            source.put(key, value)
        follower = bench.follower(b, [bench.link("l", a)]).start()
        for key, value in pairs[1::2]:
            source.put(key, value)
        # One over a limit is refused and changes nothing.
        for key, value in ((b"k" * (KEY_MAX + 1), b""), (b"too large", b"v" * (VALUE_MAX + 1))):
            try:
                source.put(key, value)
                raise AssertionError("one over the limit was taken")
            except native.Refused as refused:
                assert refused.status == "ItemTooLarge", refused
        processes.caught_up(follower, "l")
        target = native.Client(b.client_port)
        for key, value in pairs:
            assert target.get(key) == value, f"{key[:40]!r} differs in B"
        processes.assert_equal(a, b, bench.folder)

        # One hash tag with very many keys: one slot that no copy can take whole.
        tagged = arguments.tagged
        for start in range(0, tagged, 1000):
            done = source.put_many([(b"{tag}%d" % n, b"%d" % n) for n in range(start, start + 1000)])
            assert len(done) == 1000
        processes.caught_up(follower, "l", 120)
        processes.assert_equal(a, b, bench.folder)

        # The same into an empty target, by chunks, while the slot changes.
        b.kill()
        b.start("ready")
        for start in range(0, tagged, 1000):
            source.put_many([(b"{tag}%d" % n, None if n % 3 == 0 else b"again %d" % n) for n in range(start, start + 1000, 7)])
        eventually(lambda: processes.link_status(follower, "l")["bootstraps_total"]["target_lost"] > 0, "the empty target is noticed")
        processes.caught_up(follower, "l", 120)
        processes.assert_equal(a, b, bench.folder)
    print("1 passed, 0 failed")


main()
