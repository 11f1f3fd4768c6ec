#!/usr/bin/python3
"""A tenant's reader, written from the page alone, gets the tenant's keys and not a byte of anybody else's: in chunks, stream, deletes
and expiry; its positions move although nothing matches; it goes on where it was; what is not granted or not there is refused."""
import asyncio
import pathlib
import sys
import time

import websockets

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import reader as feed  # noqa: E402
from harness import native, processes  # noqa: E402
from harness.records import slot_of  # noqa: E402

ACCESS = [{"subject": "tenant", "prefixes": ["t1:"]}, {"subject": "reader", "prefixes": [""]}]
# Every key and every value outside t1: holds one of these; long enough never to come up in a digest or an id by chance.
FOREIGN_KEY, FOREIGN_VALUE = b"/of-somebody-else/", b"not for the tenant"
SECONDS = 60  # for each thing that has to come


class Tenant:
    """What one reader collects over its sessions."""

    def __init__(self, bench, region):
        self.bench, self.region = bench, region
        self.content = self.records = None
        self.digests = []
        self.received = self.leaks = 0

    def session(self, certificate="tenant", prefixes=(b"t1:",), link="tenant"):
        folder = self.bench.certificates
        return feed.Reader(self.region.feed_port, folder / "ca.crt", folder / f"{certificate}.crt", folder / f"{certificate}.key",
                           prefixes=prefixes, link=link, on_bytes=self.look)

    def look(self, data):
        self.received += len(data)
        self.leaks += FOREIGN_KEY in data or FOREIGN_VALUE in data

    def apply(self, event):
        self.content.apply(event)
        if event.kind == "run":
            self.records += event.records
        if event.kind == "digests":
            self.digests.append(event)

    async def take(self, session, condition):
        try:
            await asyncio.wait_for(session.until(condition, self.apply), SECONDS)
        except asyncio.TimeoutError:
            raise AssertionError(f"not within {SECONDS} s; {session.missing()}") from None

    async def ended(self, session, segment, history, low):
        """The reason for which a segment ends that is subscribed at this position."""
        await session.subscribe({segment: (history, low, None)})
        state = session.segments[segment]
        await self.take(session, lambda: state.answered == state.asked)
        return state.ended


def keys_of(region):
    """The live keys of t1: by the client protocol's own scan."""
    client = native.Client(region.client_port)
    found, after = {}, None
    while True:
        client.socket.sendall(client.frame("scan", [b"", after, 10_000, 1 << 20, True]))
        _, status, (after, rows), tail = client.read()
        assert status == "Ok", status
        at = 8 * rows
        for n in range(rows):
            length = int.from_bytes(tail[8 * n : 8 * n + 8], "little") & 0xFFFFFF
            key = tail[at : at + length]
            at += length
            if key.startswith(b"t1:"):
                found[key] = client.get(key)
        if after is None:
            client.close()
            return found


def foreign(n):
    return [(name + FOREIGN_KEY + b"%d" % n, b"%d " % n + FOREIGN_VALUE) for name in (b"t2:", b"T1:", b"t1")]


async def chunks_and_stream(tenant, source):
    """Returns the positions of the first change and those at which the session was left."""
    a = tenant.region
    async with tenant.session() as session:
        tenant.content, tenant.records = feed.Content(session.count), []
        await session.subscribe_all(bootstrap=True)
        await tenant.take(session, session.caught_up())
        assert tenant.content.pairs() == {b"t1:%d" % n: b"one %d" % n for n in range(300)}, "the chunks are not the keys of t1:"
        assert not tenant.records, "the stream brought what the chunks had brought"
        first = {n: s.named() for n, s in session.segments.items()}

        soon = int(time.time() * 1e6) + 700_000
        source.put_many([(b"t1:soon:%d" % n, b"gone soon", soon) for n in range(100)])
        source.put_many([(key + b":soon", value, soon) for n in range(100) for key, value in foreign(n)])
        source.put_many([(b"t1:%d" % n, b"changed") for n in range(100)])
        source.put_many([(b"t1:%d" % n, None) for n in range(100, 200)])
        source.put_many([pair for n in range(200) for pair in foreign(n)])
        source.put_many([(key, None) for n in range(100) for key, _ in foreign(n)])
        await tenant.take(session, lambda: sum(r.deleted == 2 for r in tenant.records) == 100)
        await tenant.take(session, session.caught_up())
        expected = {b"t1:%d" % n: (b"changed" if n < 100 else b"one %d" % n) for n in range(300) if not 100 <= n < 200}
        assert tenant.content.pairs() == expected == keys_of(a), "what was collected is not what A holds of t1:"
        kinds = sorted(r.deleted for r in tenant.records)
        assert kinds == [0] * 200 + [1] * 100 + [2] * 100, f"not 200 puts, 100 deletes, 100 expiries, each once: {kinds}"

        # Nothing matches, and yet positions move, without a run.
        before, seen = {n: s.held for n, s in session.segments.items()}, len(tenant.records)
        source.put_many([pair for n in range(1000, 2000) for pair in foreign(n)])
        await tenant.take(session, session.caught_up())
        moved = sum(session.segments[n].held > before[n] for n in before)
        assert moved > 200, f"{moved} positions moved by Progress"
        assert len(tenant.records) == seen

        own = slot_of(b"t1:250") * session.count // feed.SLOTS
        await session.request_digest(own)
        await tenant.take(session, lambda: tenant.digests)
        number, digest = tenant.digests[0].places[4:6]
        assert (number, digest) == (len(tenant.content.records[own]), tenant.content.digest(own)), "the digest of the scope is another one"
        await session.ack()
        left = {n: s.named() for n, s in session.segments.items()}
    return first, left


async def resumed(tenant, source, first, left):
    # Changes while the reader is away, each a key of its own.
    tenant.records = []
    source.put_many([(b"t1:away:%d" % n, b"back again") for n in range(300)])
    source.put_many([(b"t1:%d" % n, None) for n in range(50)])
    source.put_many([pair for n in range(3000, 3300) for pair in foreign(n)])
    async with tenant.session() as session:
        await session.subscribe_all(left)
        await tenant.take(session, session.caught_up())
        came = sorted((r.key, r.deleted) for r in tenant.records)
        assert came == sorted([(b"t1:away:%d" % n, 0) for n in range(300)] + [(b"t1:%d" % n, 1) for n in range(50)]), \
            "what came after resuming is not what changed meanwhile, each once"
        assert tenant.content.pairs() == keys_of(tenant.region)
        assert session.messages["Chunk"] == 0

        # Acknowledged, the positions of Progress rows let the log go.
        key = b"t2:" + FOREIGN_KEY + b"{hot}"
        hot = slot_of(key) * session.count // feed.SLOTS
        state = session.segments[hot]
        for _ in range(50):
            if state.floor > first[hot][1][1] + 1:
                break
            source.put_many([(key, FOREIGN_VALUE * 200)] * 500)
            await tenant.take(session, session.caught_up())
            await session.ack()
        assert state.floor > first[hot][1][1] + 1, "the acknowledged positions of Progress rows do not let the log go"
        history, low = state.named()

    async with tenant.session(link="other") as session:
        assert await tenant.ended(session, hot, *first[hot]) == "below_floor"
        assert await tenant.ended(session, hot, history ^ 1, low) == "source_reset"
        assert await tenant.ended(session, hot, history, [*low[:2], low[2] ^ 1]) == "unknown_lineage"
        assert await tenant.ended(session, hot, history, [low[0], low[1] + 1_000_000, low[2]]) == "ahead_of_source"
        assert await tenant.ended(session, hot, history, low) is None, "the segment cannot be subscribed again after it has ended"


async def refused(tenant):
    for prefixes, code in (((b"t2:",), "unauthorised"), ((b"t1:", b"t2:"), "scope_mismatch"), ((), "scope_mismatch")):
        try:
            async with tenant.session(prefixes=prefixes):
                raise AssertionError(f"the tenant was granted {prefixes}")
        except feed.Refused as error:
            assert error.code == code, f"{prefixes}: {error}"
    try:
        async with tenant.session(certificate="follower"):
            raise AssertionError("a subject that the table does not name was let in")
    except websockets.InvalidStatusCode as error:
        assert error.status_code == 403, error


async def everything(bench, a):
    source = native.Client(a.client_port)
    source.put_many([(b"t1:%d" % n, b"one %d" % n) for n in range(300)])
    source.put_many([pair for n in range(300) for pair in foreign(n)])
    tenant = Tenant(bench, a)
    first, left = await chunks_and_stream(tenant, source)
    await resumed(tenant, source, first, left)
    await refused(tenant)
    assert tenant.leaks == 0, f"{tenant.leaks} messages hold bytes of keys or values outside the scope"

    # The same look finds them where they may be seen: the assertion above can fail.
    other = Tenant(bench, a)
    async with other.session(certificate="reader", prefixes=(), link="reader") as session:
        other.content, other.records = feed.Content(session.count), []
        await session.subscribe_all(bootstrap=True)
        await other.take(session, session.caught_up())
    assert other.leaks > 0
    print(f"{tenant.received} bytes looked through")


def main():
    with processes.Bench("reader-scope") as bench:
        a = bench.region("a", feed__access=ACCESS, log__budget_bytes="4MiB").start("ready")
        asyncio.run(everything(bench, a))
    print("1 passed, 0 failed")


main()
