#!/usr/bin/python3
"""Opens N feed sessions that have nothing to receive: what a session costs a gateway while nothing changes.

idle_sessions.py PORT CERTIFICATES_DIR N: each session subscribes to all segments at their heads, with the full scope and a link name of
its own, as the subject of CERTIFICATES_DIR/reader.crt. Prints `idle` once all of them are at the head, then keeps them open until killed;
a session that ends before that ends the program with status 1.
"""
import asyncio
import pathlib
import sys

import websockets

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "system"))
import reader as feed  # noqa: E402

CONNECTING = 20  # handshakes at a time


class Idle(feed.Reader):
    """Pings as rarely as the gateway's patience allows (three heartbeats), not every fresh interval."""

    async def ping_on(self):
        while True:
            await self.ping()
            await asyncio.sleep(self.silence / 6)


async def main(port, folder, count):
    gate = asyncio.Semaphore(CONNECTING)
    at_head = 0

    async def session(n):
        nonlocal at_head
        async with gate:
            reader = await Idle(port, folder / "ca.crt", folder / "reader.crt", folder / "reader.key", link=f"idle-{n}").__aenter__()
            await reader.subscribe_all()
            caught_up = reader.caught_up()
            await reader.ping()
            await reader.until(caught_up)
        at_head += 1
        if at_head == count:
            print("idle", flush=True)
        while True:  # what comes is Progress and Pongs, five a second each from a thousand sessions: read away, not looked at
            await reader.socket.recv()

    await asyncio.gather(*(session(n) for n in range(count)))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        asyncio.run(main(int(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])))
    except KeyboardInterrupt:
        pass
    except (feed.Violation, feed.Refused, OSError, websockets.ConnectionClosed) as error:
        sys.exit(f"idle_sessions: {error}")
