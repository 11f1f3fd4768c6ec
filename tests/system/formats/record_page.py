#!/usr/bin/python3
"""docs/formats/record.md is right: its examples decode, with MessagePack and XXH3 of another language, to what the page says."""
import pathlib
import re
import struct
import sys

import msgpack
import xxhash

page = pathlib.Path(__file__).resolve().parents[3] / "docs" / "formats" / "record.md"
blocks = dict((name, body) for name, body in re.findall(r"```(?:hex|text) (\S+)\n(.*?)```", page.read_text(), re.S))
raw = {name: bytes.fromhex(re.sub(r"\s", "", body)) for name, body in blocks.items() if name != "digest"}
passed = failed = 0


def check(what, got, wanted):
    global passed, failed
    if got == wanted:
        passed += 1
    else:
        failed += 1
        print(f"{what}: {got!r}, the page says {wanted!r}", file=sys.stderr)


record = msgpack.unpackb(raw["record"])
check("record", record, [[b"user:1", b"hello", None, 0x01020304], 7, 3, 1700000000000000, False, 9, None])
copy = msgpack.unpackb(raw["record-replicated"])
check("replicated", copy, [[b"user:1", b"hello", [None, 1800000000000000], 0x01020304], 1000, 3, 1700000000000000, False, 2, [0xAA, 9, 7]])
check("tombstone", msgpack.unpackb(raw["tombstone"]), [[b"user:1", None, None, 0x0A0B0C0D], 8, 4, 1700000000000001, 1, 9, None])
check("generation record", msgpack.unpackb(raw["generation-record"]), [None, 1, 0, 1700000000000000, False, 9, None, [0xABC, 0xDEF, 0]])

entry = raw["record"][1 : raw["record"].index(b"\xcf")]
content = xxhash.xxh3_128(entry, seed=0).digest()
check("digest", xxhash.xxh3_128(content + struct.pack(">I", 3), seed=0).hexdigest(), blocks["digest"].strip())
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
