#!/usr/bin/python3
"""docs/formats/native.md is right: its frames decode, with MessagePack of another language, to what the page says of them."""
import pathlib
import re
import struct
import sys

import msgpack

page = (pathlib.Path(__file__).resolve().parents[3] / "docs" / "formats" / "native.md").read_text()
frames = {name: bytes.fromhex(re.sub(r"\s", "", body)) for name, body in re.findall(r"```hex (\S+)\n(.*?)```", page, re.S)}
opcodes = {name: int(number) for number, name in re.findall(r"^### (\d+) (\w+)$", page, re.M)}
statuses = {name: int(number) for number, name in re.findall(r"\b(\d+) ([A-Z][A-Za-z]+) \|", page.split("## Statuses")[1].split("## Opcodes")[0])}
passed = failed = 0


def check(what, got, wanted):
    global passed, failed
    if got == wanted:
        passed += 1
    else:
        failed += 1
        print(f"{what}: {got!r}, not {wanted!r}", file=sys.stderr)


def parse(name):
    """(opcode, status, correlation id, places, what stands behind the array)"""
    frame = frames[name]
    length, version, opcode, status, correlation = struct.unpack_from("<IBBHI", frame)
    check(f"{name}: length", length, len(frame) - 4)
    check(f"{name}: version", version, 1)
    unpacker = msgpack.Unpacker(raw=True, strict_map_key=False)
    unpacker.feed(frame[12:])
    places = unpacker.unpack()
    return opcode, status, correlation, places, frame[12 + unpacker.tell():]


def spelled(name):
    """ListPins -> list-pins"""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


for name, number in opcodes.items():
    for example in (spelled(name), spelled(name) + "-answer"):
        check(f"{example}: opcode", parse(example)[0], number)
check("statuses are numbered from 0", sorted(statuses.values()), list(range(len(statuses))))

check("get", parse("get")[3], [b"user:1"])
check("get-answer", parse("get-answer")[3], [3, 0x01020304, 1700000000000000, b"hello"])
check("put", parse("put")[3], [b"user:1", b"hello", 1700000000000000, [3, 0x01020304]])
check("put-answer", parse("put-answer")[3], [4, 0x05060708, 77, 9, 1000])
check("delete-answer", parse("delete-answer")[1], statuses["NotFound"])
check("batch", parse("batch")[3], [0, [[opcodes["Get"], b"user:1"], [opcodes["Put"], b"user:2", b"hello", 0, 0], [opcodes["Delete"], b"user:3"]]])
check("batch-answer", parse("batch-answer")[3], [[[0, 3, 0x01020304, 0, b"hello"], [statuses["Conflict"], 1, 0x05060708], [statuses["NotFound"], 0, 0]]])
check("error", (parse("error")[1], len(parse("error")[3])), (statuses["ItemTooLarge"], 2))

_, _, _, (following, rows), rest = parse("scan-answer")
(row,) = struct.unpack_from("<Q", rest)
check("scan: table", (rows, row & 0xFFFFFF, (row >> 24) & 0xFF, (row >> 32) & 0xFFFF, row >> 48), (1, len(rest) - 8, 0, 10778, 0))
check("scan: record", msgpack.unpackb(rest[8:], raw=True)[0][:2], [b"user:1", b"hello"])
check("scan: next", following, [10778, b"user:1"])

_, _, _, apply, rest = parse("apply-batch")
check("apply", apply[:8], [b"a-to-b", 0xAA, 0xDEF, 0, 77, 77, 4, 1])
check("apply: token, prev, last", apply[9:12], [[3, 0x1122334455667788, 42], [9, 1000, 0xABC], [9, 1001, 0xABC]])
check("apply: rows", (apply[16], struct.unpack_from("<Q", rest)[0] >> 48), (1, 1))
check("range", parse("apply-batch-range")[3][13][:4], [2, [10000, b""], None, [9, 1001, 0xABC]])
mark = parse("apply-batch-answer")[3][1]
check("mark", (mark[:4], mark[4], mark[5], mark[8], mark[9], mark[10]), ([0xAA, 0xDEF, 1, 4], [3, 0x1122334455667788, 42], 1, [9, 1000, 0xABC], [9, 1000, 0xABC], [9, 900, 0xABC]))
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
