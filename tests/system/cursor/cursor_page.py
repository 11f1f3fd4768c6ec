#!/usr/bin/python3
"""docs/formats/cursor.md and coordinator.md against other implementations of XXH3, MessagePack and LMDB: every example of the
pages, and a store as zaris-cursor writes it, dumped by mdb_dump."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import msgpack
import xxhash

program, docs = sys.argv[1], pathlib.Path(sys.argv[2])


def examples(page):
    text = (docs / page).read_text()
    return [[bytes.fromhex(line.replace(" ", "")) for line in block.strip().splitlines()]
            for block in re.findall(r"```hex\n(.*?)```", text, re.S)]


def sum_of(key, content):
    return xxhash.xxh3_64_intdigest(key + content)


def checked(key, value):
    content, stored = value[:-8], int.from_bytes(value[-8:], "little")
    assert stored == sum_of(key, content), (key, value)
    return content


# ---- the rows of the page ---------------------------------------------------------------------------------------------
(format_line, id_line), (link_key, link_row), (cursor_key, cursor_row), (manifest_line,), log = examples("cursor.md")
rows = {line[:2]: line[2:] for line in (format_line, id_line)}
rows[link_key], rows[cursor_key] = link_row, cursor_row
assert checked(b"\0f", rows[b"\0f"]) == (1).to_bytes(4, "little")
assert checked(b"\0i", rows[b"\0i"]) == 0x0123456789abcdef.to_bytes(8, "little")
assert link_key == b"La-to-b"
assert msgpack.unpackb(checked(link_key, link_row)) == [1, b"follower-1", 0xa1, 0xb2, 0, b"", 8, None, [], False, None, [], False, b"", 0, 1]
assert cursor_key == b"C\x06a-to-b" + b"".join(n.to_bytes(8, "big") for n in (0xa1, 0xb2, 0)) + (3).to_bytes(2, "big")
cursor = msgpack.unpackb(checked(cursor_key, cursor_row))
assert cursor[:6] == [1, 0x1111, 7, 100, 0xabcdef, 1], cursor


def check_manifest(value, rows):
    content = checked(b"\0m", value)
    count, sums = int.from_bytes(content[:8], "little"), int.from_bytes(content[8:16], "little")
    expected = 0
    for row in rows.values():
        expected ^= int.from_bytes(row[-8:], "little")
    assert (count, sums) == (len(rows), expected)
    return int.from_bytes(content[16:24], "little")


assert manifest_line[:2] == b"\0m" and check_manifest(manifest_line[2:], rows) == 2

# ---- the conflict log of the page -------------------------------------------------------------------------------------
head, block, content = log
assert head[:8] == b"ZARISCFL" and head[16:] == xxhash.xxh3_64_intdigest(head[:16]).to_bytes(8, "little")
assert block[:4] == b"ZCB1" and int.from_bytes(block[4:8], "little") == len(content) and int.from_bytes(block[8:12], "little") == 1
assert int.from_bytes(block[12:], "little") == xxhash.xxh3_64_intdigest(len(head).to_bytes(8, "little") + block[4:12] + content)
assert msgpack.unpackb(content) == [1700000000000000, 3, b"k", b"old", b"new", 7, 100, 0xabcdef]

# ---- the coordinator's rows -------------------------------------------------------------------------------------------
((cluster, run),) = examples("coordinator.md")
assert msgpack.unpackb(cluster) == [1, 0xa1, b"a", b"main", 256, 1700000000000000]
assert msgpack.unpackb(run) == [1, 1700000000, True, 1700000000000000, True, 0, 0]

# ---- a real store ------------------------------------------------------------------------------------------------------
dump = shutil.which("mdb_dump")
if dump is None:
    sys.exit("mdb_dump is missing: install lmdb-utils (deploy/install-dependencies)")
with tempfile.TemporaryDirectory() as scratch:
    store = pathlib.Path(scratch) / "cursor"
    export = pathlib.Path(scratch) / "export"
    link = ('{"kind":"link","link":"x","follower":"f","source":"0000000000000001","target":"0000000000000002","scope_id":"0000000000000000",'
            '"scope":"","source_segments":4,"accepted":null,"accepted_histories":[],"rewind":false,"rewind_to":null,"rewind_segments":[],'
            '"paused":false,"paused_reason":"","version":0}')
    cursors = ['{"kind":"cursor","link":"x","source":"0000000000000001","target":"0000000000000002","scope_id":"0000000000000000","segment":%d,'
               '"history":"0000000000000003","generation":4,"revision":%d,"generation_id":"0000000000000005","phase":"bootstrap",'
               '"source_time_us":6,"persisted_us":7,"records_applied":8,"bytes_applied":9,"bootstraps":10}' % (n, n * 1000) for n in range(4)]
    export.write_text("\n".join(['{"kind":"store","format":1}', link, *cursors, '{"kind":"end","links":1,"cursors":4}']) + "\n")
    subprocess.run([program, "--path", store, "import", export, "--yes"], check=True, stderr=subprocess.DEVNULL)
    text = subprocess.run([dump, "-n", store / "cursors.mdb"], check=True, capture_output=True, text=True).stdout
    lines = [bytes.fromhex(line.strip()) for line in text.split("HEADER=END\n")[1].split("DATA=END")[0].splitlines()]
    found = dict(zip(lines[::2], lines[1::2]))
    manifest = found.pop(b"\0m")
    for key, value in found.items():
        checked(key, value)
    check_manifest(manifest, found)
    assert sorted(key[:1] for key in found) == [b"\0", b"\0", b"C", b"C", b"C", b"C", b"L"]
    revisions = [msgpack.unpackb(value[:-8])[3] for key, value in sorted(found.items()) if key[:1] == b"C"]
    assert revisions == [0, 1000, 2000, 3000]
    twin = (store / "cursor.id").read_text().splitlines()
    assert twin[0] == "zaris-store-twin 1" and bytes.fromhex(twin[1].removeprefix("id "))[::-1] == found[b"\0i"][:8]
print("ok")
