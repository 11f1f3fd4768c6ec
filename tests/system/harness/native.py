"""A client of the native protocol that shares no code with the product: written from docs/formats/native.md.

Used by tests that must know exactly what was acknowledged. Pipelines; one connection, one thread.
"""
import random
import socket
import struct

import msgpack

OPCODES = dict(hello=1, get=2, put=3, delete=4, touch=5, ttl=6, batch=7, scan=8, digest=9, status=10, map=11, read_marks=33, list_links=36)
STATUS = ["Ok", "NotFound", "Conflict", "Moved", "OwnershipChanging", "Migrating", "ReplicaSyncPending", "ReplicaWriteRejected",
          "Unavailable", "ItemTooLarge", "CapacityExceeded", "Standby", "DurabilityNotMet", "Unauthorized", "InvalidArgument",
          "TimedOut", "Unsupported", "TargetChanged", "MarkGap"]
HEADER = struct.Struct("<IBBHI")


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body!r}")
        self.status = status


class Client:
    def __init__(self, port, host="127.0.0.1", timeout=10.0):
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb", buffering=1 << 16)
        self.correlation = 0
        self.welcome = self.call("hello", [1, 1, None, None, 4, None, 0, 0, "test"])

    def close(self):
        try:
            self.stream.close()
            self.socket.close()
        except OSError:
            pass

    def give_up(self):
        """Closes it so that what the kernel still has for the node never arrives."""
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        self.close()

    def frame(self, opcode, places, tail=b""):
        self.correlation += 1
        body = msgpack.packb(places, use_bin_type=True) + tail
        return HEADER.pack(8 + len(body), 1, OPCODES[opcode], 0, self.correlation) + body

    def read(self):
        """One answer: (correlation, status name, places, tail bytes)."""
        head = self.stream.read(12)
        if len(head) < 12:
            raise ConnectionError("the node closed the connection")
        length, _, _, status, correlation = HEADER.unpack(head)
        body = self.stream.read(length - 8)
        if len(body) < length - 8:
            raise ConnectionError("the node closed the connection")
        unpacker = msgpack.Unpacker(raw=True, max_buffer_size=len(body) + 1)
        unpacker.feed(body)
        places = unpacker.unpack() if body else []
        return correlation, STATUS[status] if status < len(STATUS) else str(status), places, body[unpacker.tell():] if body else b""

    def call(self, opcode, places):
        self.socket.sendall(self.frame(opcode, places))
        while True:
            correlation, status, answer, _ = self.read()
            if correlation == self.correlation:
                if status not in ("Ok", "NotFound"):
                    raise Refused(status, answer)
                return answer if status == "Ok" else None

    def put(self, key, value, expires_us=0):
        return self.call("put", [key, value, expires_us, None, 0])

    def get(self, key):
        answer = self.call("get", [key])
        return None if answer is None else answer[3]

    def delete(self, key):
        return self.call("delete", [key, None, 0])

    def put_many(self, pairs):
        """Pipelined puts of (key, value, expires_us); returns those that were acknowledged before anything went wrong."""
        pairs = list(pairs)
        sent = {}
        out = []
        for pair in pairs:
            out.append(self.frame("put", [pair[0], pair[1], pair[2] if len(pair) > 2 else 0, None, 0]) if pair[1] is not None
                       else self.frame("delete", [pair[0], None, 0]))
            sent[self.correlation] = pair
        self.socket.sendall(b"".join(out))
        acknowledged = []
        try:
            while sent:
                correlation, status, _, _ = self.read()
                pair = sent.pop(correlation, None)
                if pair is not None and status in ("Ok", "NotFound"):
                    acknowledged.append(pair)
        except OSError:
            pass
        return acknowledged

    def marks(self, link, scope_id=0):
        """{source segment: (phase, low as (generation, revision) or None)} — the lowest low over its target segments."""
        found, first = {}, 0
        while first is not None:
            rows, *rest = self.call("read_marks", [link, scope_id, first, 0])
            for row in rows:
                source, mark = row[1], row[2]
                low = tuple(mark[8][:2]) if mark[8] is not None else None
                if source not in found or low is None or (found[source][1] is not None and low < found[source][1]):
                    found[source] = (mark[5], low)
            first = rest[0] if rest else None
        return found


def random_key(rng: random.Random, space):
    return b"key:%08d" % rng.randrange(space)
