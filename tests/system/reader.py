#!/usr/bin/python3
"""A reader of the change feed that shares no code with the product: written from docs/formats/feed.md and record.md alone.

It holds the gateway to the page: whatever the page promises and a reader can check is checked with every message, and the first
promise that is broken raises Violation (as a command: exit status 1). As a command it prints one JSON object per record, then a
summary. As a module: `async with Reader(...) as reader`, subscribe, then iterate over `reader.events()`.
"""
import argparse
import asyncio
import collections
import contextlib
import dataclasses
import hashlib
import json
import ssl
import struct
import sys
import time

import msgpack
import websockets

from harness.records import SLOTS, Violation, check, digest_of, read_record

HELLO, SUBSCRIBE, CREDIT, ACK, FETCH_KEYS, DIGEST_REQUEST, PING, UNSUBSCRIBE = range(1, 9)
WELCOME, SUBSCRIBED, BATCH, PART, PROGRESS, CHUNK, RECORDS, DIGESTS, STREAM_END, PONG, ERROR, GO_AWAY = range(32, 44)
NAMES = {32: "Welcome", 33: "Subscribed", 34: "Batch", 35: "Part", 36: "Progress", 37: "Chunk", 38: "Records", 39: "Digests",
         40: "StreamEnd", 41: "Pong", 42: "Error", 43: "GoAway"}
PLACES = {WELCOME: 14, SUBSCRIBED: 7, BATCH: 2, PART: 12, PROGRESS: 4, CHUNK: 10, RECORDS: 9, DIGESTS: 6, STREAM_END: 8, PONG: 4,
          ERROR: 5, GO_AWAY: 3}
REASONS = {1: "below_floor", 2: "diverged", 3: "unknown_lineage", 4: "source_reset", 5: "source_standby", 6: "ahead_of_source",
           7: "wrong_cluster", 8: "scope_mismatch", 9: "scope_revoked", 10: "unauthorised", 11: "ownership_moving", 12: "too_slow",
           13: "dropped", 14: "shutting_down", 15: "protocol_error", 16: "version_unsupported"}
LAST = 1  # flag of a run: reaches the head; of a Chunk: the last one; of Records: another follows
TOMBSTONE = 1


class Refused(Exception):
    """The gateway ended the session with an Error message."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


def scope_text(prefixes):
    """The canonical text of a scope of key prefixes."""
    kept = []
    for prefix in sorted(set(prefixes)):
        if not any(prefix.startswith(k) for k in kept):
            kept.append(prefix)
    return b"" if b"" in kept else b"".join(b"%d:%s" % (len(p), p) for p in kept)


def scope_id(text):
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") if text else 0


@dataclasses.dataclass
class Segment:
    """What the reader knows of one segment that it has subscribed."""
    number: int
    asked: int = 0  # Subscribes sent
    answered: int = 0  # the newest number answered; what comes while answered < asked is of an earlier Subscribe
    low: object = None  # the named position asked for
    history: object = None
    held: object = None  # (generation, revision), None before the first chunk of a walk that began with nothing
    head: tuple = (0, 0)  # newest head told, by whatever message
    floor: int = 0
    ids: dict = dataclasses.field(default_factory=dict)  # lineage: generation → id
    walking: bool = False
    behind: object = None  # (slot, key): the end of the newest chunk
    ended: object = None  # name of the reason
    lowest: object = None

    def named(self):
        """(history id, [generation, revision, id]): what a later session subscribes with."""
        check(self.held is not None, f"segment {self.number} has no position yet")
        check(self.held[0] in self.ids, f"segment {self.number}: generation {self.held[0]} is not in the lineage")
        return self.history, [*self.held, self.ids[self.held[0]]]


@dataclasses.dataclass
class Event:
    """One message, or one run of a Batch: what it was and what it brought."""
    kind: str  # run, chunk, progress, subscribed, end, pong, records, digests, go_away
    segment: object = None
    records: list = dataclasses.field(default_factory=list)
    first: object = None  # chunk: the range behind first up to and including last
    last: object = None
    places: object = None  # the message, as unpacked


class Content:
    """What a reader holds that applies everything it is told: the live keys of its scope."""

    def __init__(self, segments):
        self.segments = segments
        self.records = collections.defaultdict(dict)  # segment → key → Record

    def apply(self, event):
        if event.kind == "chunk":
            held = self.records[event.segment]
            for key in [k for k, r in held.items() if (event.first is None or (r.slot, k) > event.first)
                        and (event.last is None or (r.slot, k) <= event.last)]:
                del held[key]
        if event.kind in ("chunk", "run"):
            for record in event.records:
                if record.deleted:
                    self.records[event.segment].pop(record.key, None)
                else:
                    self.records[event.segment][record.key] = record

    def pairs(self):
        return {k: r.value for held in self.records.values() for k, r in held.items()}

    def digest(self, segment):
        return digest_of((r.entry, r.item_version) for r in self.records[segment].values())


class Reader:
    def __init__(self, port, ca, cert, key, host="127.0.0.1", prefixes=(), link="reader", credit=32 << 20, cluster=None, on_bytes=None):
        """prefixes: bytes; none is everything. credit: bytes of tables and records that may be under way. cluster: the cluster id
        expected, None at the first contact. on_bytes(data): called with the bytes of every message received, as they came."""
        self.address = f"wss://{host}:{port}/feed/v1"
        self.tls = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(ca))
        self.tls.minimum_version = ssl.TLSVersion.TLSv1_3
        self.tls.load_cert_chain(str(cert), str(key))
        self.prefixes, self.scope, self.link = list(prefixes), scope_text(prefixes), link
        self.window, self.free = credit, 0
        self.cluster, self.on_bytes = cluster, on_bytes
        self.full = self.scope == b""
        self.segments = {}
        self.messages = collections.Counter()
        self.bytes = self.records = self.outside = 0
        self.part = None
        self.heads_at_closed = (0, {})  # (closed time, heads told with it)
        self.source_clock = 0
        self.requests = {}
        self.ping_sent = self.pong_seen = 0
        self.unserved = set()
        self.socket = None

    async def __aenter__(self):
        # No extensions. The page's Ping keeps the session alive, so WebSocket pings are not needed.
        self.socket = await websockets.connect(self.address, ssl=self.tls, compression=None, max_size=64 << 20, ping_interval=None,
                                               max_queue=16, open_timeout=30)
        try:
            await self.send([HELLO, 1, 1, "reader.py", self.link, self.cluster, 0, self.scope, 0, [], 0])
            welcome = await self.receive(10)
            check(welcome[0] == WELCOME, f"the first message is {welcome[0]}, not Welcome")
            (_, version, self.cluster_id, self.name, self.count, granted, _, _, live_keys, live_bytes, self.roots, fresh, beat, _) = welcome[:14]
            check(version == 1, f"version {version} was not offered")
            check(self.cluster is None or self.cluster == self.cluster_id, "Welcome of another cluster than the one asked for")
            check(granted == scope_id(self.scope), f"scope {granted:016x} was granted, {scope_id(self.scope):016x} asked for")
            check(self.full or (live_keys, live_bytes) == (0, 0), "a scoped reader is told the size of everything")
            check(len(self.roots) == self.count, f"{len(self.roots)} roots of {self.count} segments")
            self.fresh, self.silence = fresh / 1000, 3 * beat / 1000
            await self.give(self.window)
        except BaseException:
            await self.socket.close()
            raise
        self.pinger = asyncio.create_task(self.ping_on())
        return self

    async def __aexit__(self, *_):
        self.pinger.cancel()
        with contextlib.suppress(asyncio.CancelledError, websockets.ConnectionClosed):
            await self.pinger
        await self.socket.close()

    # --- sending

    async def send(self, message):
        data = msgpack.packb(message, use_bin_type=True)
        check(len(data) <= 4 << 20, "a follower's message has more than 4 MiB")
        await self.socket.send(data)

    async def give(self, size):
        self.free += size
        await self.send([CREDIT, size])

    async def subscribe(self, wanted):
        """wanted: segment → (history id, low, walk); low: a named position or None, walk: [from, None] or None."""
        rows = []
        for number, (history, low, walk) in wanted.items():
            old = self.segments.get(number)
            self.segments[number] = Segment(number, asked=old.asked + 1 if old else 1, answered=old.answered if old else 0, low=low, history=history,
                                            walking=walk is not None, behind=tuple(walk[0]) if walk and walk[0] else None)
            rows.append([number, history, low, low, walk])
        await self.send([SUBSCRIBE, rows])

    async def subscribe_all(self, positions=None, bootstrap=False):
        """positions: segment → (history id, named position). Those without one begin now, or with a walk."""
        positions = positions or {}
        walk = [None, None] if bootstrap else None
        await self.subscribe({n: (*positions[n], None) if n in positions else (None, None, walk) for n in range(self.count)})

    async def ack(self):
        rows = [[s.number, list(s.held)] for s in self.segments.values() if s.held is not None and s.ended is None]
        await self.send([ACK, 0, rows])

    async def fetch_keys(self, segment, keys):
        number = len(self.requests) + 1
        self.requests[number] = ("records", segment, list(keys), 0)
        await self.send([FETCH_KEYS, number, segment, list(keys)])
        return number

    async def request_digest(self, segment):
        number = len(self.requests) + 1
        self.requests[number] = ("digests", segment, None, 0)
        await self.send([DIGEST_REQUEST, number, segment, None, None])
        return number

    async def ping(self):
        self.ping_sent += 1
        await self.send([PING, self.ping_sent])

    async def ping_on(self):
        while True:
            await self.ping()
            await asyncio.sleep(self.fresh)  # the rhythm that the page asks for; nothing waits on it

    # --- receiving

    async def receive(self, seconds):
        try:
            data = await asyncio.wait_for(self.socket.recv(), seconds)
        except asyncio.TimeoutError as error:
            raise Violation(f"nothing came for {seconds:g} s") from error
        except websockets.ConnectionClosed as error:
            raise ConnectionError(f"the gateway closed the connection: {error}") from error
        check(isinstance(data, bytes), "a text message")
        if self.on_bytes is not None:
            self.on_bytes(data)
        self.bytes += len(data)
        try:
            message = msgpack.unpackb(data, raw=False, strict_map_key=False)
        except (ValueError, msgpack.UnpackException) as error:
            raise Violation(f"a message that cannot be unpacked: {error!r}: {data[:64].hex()}") from error
        check(isinstance(message, list) and message and type(message[0]) is int, "a message that is no array with a type")
        self.messages[NAMES.get(message[0], str(message[0]))] += 1
        if message[0] == ERROR:
            raise Refused(message[1], message[2])
        # A missing trailing place means its default; tables of this reader know nil, and take it as 0 where numbers stand.
        return message + [None] * (PLACES.get(message[0], 0) - len(message))

    async def events(self):
        """Yields an Event per message (per run of a Batch); gives the credit back when the next one is asked for."""
        while True:
            # Also what an iteration left early has used: a record larger than the window waits until all of it is free.
            if self.free != self.window:
                await self.give(self.window - self.free)
            message = await self.receive(self.silence)
            handler = {SUBSCRIBED: self.on_subscribed, BATCH: self.on_batch, PART: self.on_part, PROGRESS: self.on_progress,
                       CHUNK: self.on_chunk, RECORDS: self.on_records, DIGESTS: self.on_digests, STREAM_END: self.on_end,
                       PONG: self.on_pong}.get(message[0])
            if handler is not None:
                for event in handler(message):
                    yield event
            elif message[0] == GO_AWAY:
                yield Event("go_away", places=message)
            else:
                check(message[0] != WELCOME, "a second Welcome")

    async def until(self, condition, apply=lambda event: None):
        """Takes events until condition() holds; apply is called with each."""
        if condition():
            return
        async for event in self.events():
            apply(event)
            if condition():
                return

    def caught_up(self):
        """A function that is true once everything that was there at the moment of this call is held."""
        ping = self.ping_sent + 1
        return lambda: self.pong_seen >= ping and not self.unserved and all(
            s.ended is None and s.answered == s.asked and not s.walking and s.held is not None and s.held >= s.head
            for s in self.segments.values())

    def missing(self):
        """For people: the segments that are not at the head."""
        return [f"{s.number}: {s.ended or s.held} of {s.head}" for s in self.segments.values()
                if s.ended or s.answered < s.asked or s.walking or s.held is None or s.held < s.head]

    def current(self, number):
        """The segment, or None when what comes belongs to a Subscribe that was replaced."""
        check(number in self.segments, f"segment {number} was never subscribed")
        segment = self.segments[number]
        if segment.answered < segment.asked:
            return None
        check(segment.ended is None, f"segment {number}: data after StreamEnd {segment.ended}")
        return segment

    def count_bytes(self, size, what):
        """Nothing that counts comes without credit; what is larger than the window comes alone, when all of it is free."""
        check(size <= self.free or (size > self.window and self.free == self.window),
              f"{what}: {size} bytes came when {self.free} of {self.window} bytes of credit were free")
        self.free -= size

    def table(self, segment, table, data, revision, source):
        """The records of a table; revision: the one before the first, None where rows have no deltas."""
        check(len(table) % 8 == 0, f"segment {segment}: a table of {len(table)} bytes")
        records, at = [], 0
        for i in range(len(table) // 8):
            row = struct.unpack_from("<Q", table, 8 * i)[0]
            length, flags, slot, delta = row & 0xFFFFFF, row >> 24 & 0xFF, row >> 32 & 0xFFFF, row >> 48
            check(at + length <= len(data), f"segment {segment}: the table goes beyond the records")
            record = read_record(data[at : at + length], segment, source)
            at += length
            self.check_row(record, flags, slot)
            if revision is None:
                check(delta == 0, f"segment {segment}: a delta of {delta} where there is no revision before")
            else:
                check(delta > 0, f"segment {segment}: a delta of 0 in a run")
                revision += delta
                check(record.revision == revision, f"segment {segment}: record {record.revision}, by the table {revision}")
            records.append(record)
        check(at == len(data), f"segment {segment}: {len(data) - at} bytes behind the last record of the table")
        return records

    def check_row(self, record, flags, slot):
        where = f"segment {record.segment}: record {record.revision}"
        check(slot == record.slot, f"{where}: slot {slot} in the table, {record.slot} by its key")
        check(slot * self.count // SLOTS == record.segment, f"{where}: slot {slot} is not of this segment")
        check(bool(flags & TOMBSTONE) == bool(record.deleted), f"{where}: the table says flags {flags}, the record {record.deleted}")
        self.records += 1
        if not self.full and not any(record.key.startswith(p) for p in self.prefixes):
            self.outside += 1
            raise Violation(f"{where}: key {record.key!r} is outside the scope")

    def take_run(self, segment, prev, generation, last, flags, moment, records):
        prev, position = tuple(prev), (generation, last)
        check(segment.held is not None, f"segment {segment.number}: a run before any position")
        check(prev == segment.held, f"segment {segment.number}: a run behind {prev}, but {segment.held} is held")
        check(position > prev and last > prev[1], f"segment {segment.number}: a run from {prev} to {position}")
        closed, heads = self.heads_at_closed
        for record in records:
            check(record.revision <= last, f"segment {segment.number}: record {record.revision} in a run to {last}")
            check(record.generation == generation, f"segment {segment.number}: record of generation {record.generation} in a run of {generation}")
            check(record.timestamp > closed or record.revision <= heads.get(segment.number, position)[1],
                  f"segment {segment.number}: record {record.revision} of {record.timestamp} after the closed time {closed}")
        if self.full and records and records[-1].revision == last:
            check(moment == records[-1].timestamp, f"segment {segment.number}: the run's time is not its last record's")
        segment.held = position
        segment.head = max(segment.head, position)
        if flags & LAST:
            check(segment.head == position, f"segment {segment.number}: a run to {position} claims the head, but {segment.head} was told")
        return Event("run", segment.number, records)

    def on_subscribed(self, message):
        _, number, accepted, head, floor, lineage, subscription = message[:7]
        check(number in self.segments, f"Subscribed of segment {number}, which was never subscribed")
        segment = self.segments[number]
        subscription = subscription or 0
        check(1 <= subscription <= segment.asked, f"segment {number}: subscription {subscription} of {segment.asked}")
        if subscription < segment.asked:
            return
        head = tuple(head)
        check(floor <= head[1] + 1, f"segment {number}: floor {floor}, head {head}")
        root, owners = lineage
        again = segment.answered == subscription
        revisions = [o[2] for o in owners]
        check(owners and [o[0] for o in owners] == sorted({o[0] for o in owners}) and revisions == sorted(revisions),
              f"segment {number}: the lineage does not ascend: {owners}")
        if again:
            check(accepted is not None and tuple(accepted) == segment.held, f"segment {number}: the lineage grew at {accepted}, {segment.held} is held")
        elif segment.low is not None:
            check(accepted is not None and tuple(accepted) == tuple(segment.low[:2]), f"segment {number}: {accepted} instead of {segment.low}")
            check(accepted[1] >= floor - 1 or not self.full, f"segment {number}: {accepted} accepted below floor {floor}")
            check(segment.history == root[0], f"segment {number}: another history was accepted")
        elif segment.walking:
            check(accepted is None, f"segment {number}: {accepted} accepted for a walk that begins with nothing")
        else:
            check(accepted is not None, f"segment {number}: no position, and no walk either")
        segment.answered, segment.history = subscription, root[0]
        segment.ids = {o[0]: o[1] for o in owners}
        if accepted is not None:
            segment.held = tuple(accepted)
            segment.lowest = segment.lowest or segment.held
            check(segment.held <= head, f"segment {number}: {accepted} above head {head}")
        segment.head, segment.floor = max(segment.head, head), floor
        yield Event("subscribed", number, places=message)

    def on_batch(self, message):
        for run in message[1]:
            number, prev, generation, last, moment, flags, table, data = run[:8]
            self.count_bytes(len(table) + len(data), f"a run of segment {number}")
        for run in message[1]:
            number, prev, generation, last, moment, flags, table, data = run[:8]
            segment = self.current(number)
            if segment is not None:
                yield self.take_run(segment, prev, generation, last, flags, moment, self.table(number, table, data, prev[1], "stream"))

    def on_part(self, message):
        _, number, revision, offset, total, data, prev, generation, moment, slot, row_flags, flags = message[:12]
        if offset == 0:
            self.count_bytes(total + 8, f"a record in parts of segment {number}")
            if self.part is not None:
                check(self.segments[self.part[0]].asked > self.part[3], f"segment {self.part[0]}: record {self.part[1]} was left incomplete")
            self.part = (number, revision, bytearray(), self.segments[number].asked if number in self.segments else 0)
        check(self.part is not None and self.part[:2] == (number, revision) and offset == len(self.part[2]),
              f"segment {number}: a part of {revision} at {offset} that nothing comes before")
        self.part[2].extend(data)
        check(data and offset + len(data) <= total, f"segment {number}: parts beyond the record")
        if offset + len(data) < total:
            return
        whole, self.part = bytes(self.part[2]), None
        segment = self.current(number)
        if segment is not None:
            record = read_record(whole, number, "stream")
            check(record.revision == revision, f"segment {number}: record {record.revision} in parts of {revision}")
            self.check_row(record, row_flags or 0, slot)
            yield self.take_run(segment, prev, generation, revision, flags or 0, moment, [record])

    def on_progress(self, message):
        _, clock, closed, rows = message[:4]
        check(clock >= closed, f"the closed time {closed} is after the source's clock {clock}")
        check(closed >= self.heads_at_closed[0], "the closed time falls")
        for row in rows:
            number, position, head, floor, behind, prev = (list(row) + [None])[:6]
            segment = self.current(number)
            if segment is None:
                continue
            position, head = tuple(position), tuple(head)
            if prev is not None:
                check(tuple(prev) == segment.held, f"segment {number}: progress behind {prev}, but {segment.held} is held")
                check(position[1] > prev[1], f"segment {number}: progress from {prev} to {position}")
                segment.held = position
            else:
                check(position == segment.held, f"segment {number}: progress says {position}, {segment.held} is held")
            check(position <= head and floor <= head[1] + 1, f"segment {number}: position {position}, floor {floor}, head {head}")
            check(self.full or behind == 0, f"segment {number}: a scoped reader is told {behind} bytes")
            segment.head, segment.floor = max(segment.head, head), floor
        self.heads_at_closed = (closed, {s.number: s.head for s in self.segments.values() if s.answered == s.asked})
        self.source_clock = clock
        yield Event("progress", places=message)

    def on_chunk(self, message):
        _, number, first, last, as_of, count, digest, flags, table, data = message[:10]
        self.count_bytes(len(table) + len(data), f"a chunk of segment {number}")
        segment = self.current(number)
        if segment is None:
            return
        first, last = tuple(first) if first else None, tuple(last) if last else None
        check(segment.walking, f"segment {number}: a chunk that no walk asked for")
        check(first == segment.behind, f"segment {number}: a chunk behind {first}, but the one before ended at {segment.behind}")
        check(bool((flags or 0) & LAST) == (last is None), f"segment {number}: a chunk to {last} with flags {flags}")
        position = (as_of[0], as_of[1])
        check(segment.held in (None, position), f"segment {number}: a chunk as of {position}, but {segment.held} is held")
        check(segment.ids.get(as_of[0]) == as_of[2], f"segment {number}: as_of {as_of} is not on the lineage")
        records = self.table(number, table, data, None, "chunk")
        check(len(records) == count, f"segment {number}: a chunk of {count} records has {len(records)}")
        check(digest_of((r.entry, r.item_version) for r in records) == digest, f"segment {number}: the digest of a chunk is not that of its records")
        before = first
        for record in records:
            place = (record.slot, record.key)
            check(before is None or place > before, f"segment {number}: {place} after {before} in a chunk")
            check(not record.deleted, f"segment {number}: a tombstone in a chunk")
            check((record.generation, record.revision) <= position, f"segment {number}: record {record.revision} in a chunk as of {position}")
            before = place
        check(last is None or before is None or before <= last, f"segment {number}: {before} in a chunk up to {last}")
        check(last is None or first is None or last > first, f"segment {number}: a chunk behind {first} up to {last}")
        segment.held = position
        segment.lowest = segment.lowest or position
        segment.behind, segment.walking = last, last is not None
        yield Event("chunk", number, records, first, last)

    def on_records(self, message):
        _, request, number, as_of, missing, table, data, begin, flags = message[:9]
        self.count_bytes(len(table) + len(data), f"an answer of segment {number}")
        kind, wanted, keys, at = self.requests.get(request, (None, None, None, None))
        check(kind == "records" and wanted == number and at == (begin or 0), f"Records for request {request} from {begin}")
        segment = self.segments.get(number)
        if segment is not None and segment.ended is None:
            check(tuple(as_of[:2]) == segment.held, f"segment {number}: Records as of {as_of}, {segment.held} is held")
        records = self.table(number, table, data, None, "answer")
        places = [keys.index(r.key, at) for r in records]
        check(places == sorted(places) and sorted(places + missing) == list(range(at, at + len(places) + len(missing))),
              f"Records of {places}, missing {missing}, from {begin}")
        at += len(places) + len(missing)
        check(bool((flags or 0) & LAST) == (at < len(keys)), f"Records up to {at} of {len(keys)} keys with flags {flags}")
        self.requests[request] = (kind, wanted, keys, at)
        yield Event("records", number, records, places=message)

    def on_digests(self, message):
        _, request, number, as_of, count, digest = message[:6]
        check(self.requests.get(request, (None, None))[:2] == ("digests", number), f"Digests for request {request}")
        segment = self.segments.get(number)
        if segment is not None and segment.ended is None:
            check(tuple(as_of[:2]) == segment.held, f"segment {number}: Digests as of {as_of}, {segment.held} is held")
        yield Event("digests", number, places=message)

    def on_end(self, message):
        _, number, reason, text, surviving, lineage, floor, subscription = message[:8]
        check(number in self.segments, f"StreamEnd of segment {number}, which was never subscribed")
        segment = self.segments[number]
        check((subscription or 0) <= segment.asked, f"segment {number}: StreamEnd of subscription {subscription} of {segment.asked}")
        if subscription == segment.asked:
            segment.answered, segment.ended, segment.floor = subscription, REASONS.get(reason, str(reason)), floor or 0
            yield Event("end", number, places=message)

    def on_pong(self, message):
        _, echo, heads, unserved = message[:4]
        check(self.pong_seen <= echo <= self.ping_sent, f"Pong {echo} after Pong {self.pong_seen}, Ping {self.ping_sent}")
        for number, head in heads:
            check(number in self.segments, f"Pong tells the head of segment {number}, which was never subscribed")
            self.segments[number].head = max(self.segments[number].head, tuple(head))
        self.unserved = set(unserved or [])
        self.pong_seen = echo
        yield Event("pong", places=message)

    def summary(self):
        positions = {str(s.number): {"lowest": s.lowest, "highest": s.held} for s in self.segments.values()}
        return {"summary": {"messages": dict(self.messages), "bytes": self.bytes, "records": self.records, "keys_outside": self.outside,
                            "ended": {str(s.number): s.ended for s in self.segments.values() if s.ended}, "positions": positions}}


async def run(options):
    deadline = time.monotonic() + options.seconds if options.seconds is not None else None
    async with Reader(options.port, options.ca, options.cert, options.key, host=options.host, link=options.link,
                      prefixes=[p.encode("utf-8", "surrogateescape") for p in options.prefix]) as reader:
        await reader.subscribe_all(bootstrap=options.bootstrap)
        caught_up = reader.caught_up() if options.until_caught_up else lambda: False
        acked = None
        async for event in reader.events():
            for record in event.records:
                print(json.dumps(record.line()))
            if event.kind == "end":
                raise Violation(f"segment {event.segment} ended: {reader.segments[event.segment].ended}: {event.places[3]}")
            if event.kind == "pong" and options.ack:
                held = {n: s.held for n, s in reader.segments.items()}
                if held != acked:
                    await reader.ack()
                    acked = held
            if caught_up() or (deadline is not None and time.monotonic() >= deadline):
                break
        if options.ack:
            await reader.ack()
        print(json.dumps(reader.summary()))


def main():
    parser = argparse.ArgumentParser(description="Reads a region's change feed, and checks every rule of docs/formats/feed.md on the way.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    for name, what in (("ca", "authority of the gateway's certificate"), ("cert", "client certificate"), ("key", "its private key")):
        parser.add_argument(f"--{name}", required=True, help=what)
    parser.add_argument("--prefix", action="append", default=[], help="key prefix; again for more; none: everything")
    parser.add_argument("--link", default="reader", help="name of this reader's place in the log")
    parser.add_argument("--bootstrap", action="store_true", help="the whole content first; else changes from now on")
    parser.add_argument("--ack", action="store_true", help="acknowledge what was printed")
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--until-caught-up", action="store_true", help="end when everything that was there at the start is printed")
    end.add_argument("--seconds", type=float, help="end after so long")
    try:
        asyncio.run(run(parser.parse_args()))
    except (Violation, Refused, OSError, websockets.WebSocketException) as error:
        print(f"reader: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
