"""Records as docs/formats/record.md has them: decoding, slots, digests. Shares no code with the product."""
import base64
import binascii
import dataclasses

import msgpack
import xxhash

SLOTS = 16384


class Violation(Exception):
    """The gateway broke a rule of the page."""


def check(condition, what):
    if not condition:
        raise Violation(what)


def slot_of(key):
    """Redis Cluster's slot of a key: CRC16/XMODEM of the hash tag."""
    start = key.find(b"{")
    end = key.find(b"}", start + 1) if start >= 0 else -1
    return binascii.crc_hqx(key[start + 1 : end] if end > start + 1 else key, 0) % SLOTS


def digest_of(entries):
    """The digest of records given as (bytes of the entry, item version)."""
    total = 0
    for entry, version in entries:
        total += int.from_bytes(xxhash.xxh3_128_digest(xxhash.xxh3_128_digest(entry) + version.to_bytes(4, "big")), "big")
    return (total % (1 << 128)).to_bytes(16, "big")


@dataclasses.dataclass
class Record:
    segment: int
    generation: int
    revision: int
    key: bytes
    value: object  # bytes; None in a tombstone
    deleted: int  # 0, or why: 1 delete, 2 expiry, 3 eviction, 4 repair
    item_version: int
    timestamp: int  # microseconds
    expires: int  # microseconds, 0 never
    origin: object
    slot: int
    entry: bytes  # as encoded
    source: str  # "chunk", "stream" or "answer"

    def line(self):
        """What the command prints."""
        return {"segment": self.segment, "generation": self.generation, "revision": self.revision,
                "key_b64": base64.b64encode(self.key).decode(),
                "value_b64": None if self.value is None else base64.b64encode(self.value).decode(),
                "deleted": bool(self.deleted), "from": self.source}


def read_record(data, segment, source):
    """Decodes one record, and checks the widths that record.md promises."""
    try:
        unpacker = msgpack.Unpacker(raw=False, strict_map_key=False, max_buffer_size=len(data) + 1)
        unpacker.feed(data)
        places = unpacker.read_array_header()
        start = unpacker.tell()
        unpacker.skip()
        end = unpacker.tell()
        record = msgpack.unpackb(data, raw=False, strict_map_key=False)
    except (ValueError, msgpack.UnpackException) as error:
        raise Violation(f"segment {segment}: a record that cannot be unpacked: {error!r}: {data[:64].hex()}") from error
    check(places >= 7, f"segment {segment}: a record of {places} places")
    entry, revision, version, timestamp, deleted, generation, origin = record[:7]
    check(data[end] == 0xCF and data[end + 9] == 0xCE and data[end + 14] == 0xCF and data[end + 24] == 0xCE,
          f"segment {segment}: record {revision} has numbers of other widths than record.md says")
    check(deleted is False or (type(deleted) is int and 1 <= deleted <= 4), f"segment {segment}: deleted is {deleted!r}")
    check(isinstance(entry[0], bytes), f"segment {segment}: record {revision}: the key is {type(entry[0])}")
    check((entry[1] is None) == (deleted is not False), f"segment {segment}: record {revision}: a value in a tombstone, or none elsewhere")
    metadata = entry[2] if len(entry) > 2 else None
    return Record(segment, generation, revision, entry[0], entry[1], int(deleted), version, timestamp,
                  (metadata[1] or 0) if metadata and len(metadata) > 1 else 0, origin, slot_of(entry[0]), data[start:end], source)
