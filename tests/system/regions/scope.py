#!/usr/bin/python3
"""A link with a prefix carries that prefix and nothing else: in chunks, stream, deletes and expiry; its cursors and pins move although
nothing else matches; links with different scopes do not touch each other; a subject gets only what its table grants."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import native, processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402

ACCESS = [{"subject": "follower", "prefixes": [""]}, {"subject": "tenant", "prefixes": ["t1:"]}, {"subject": "reader", "prefixes": [""]}]


def keys_of(region):
    client = native.Client(region.client_port)
    found, after = {}, None
    while True:
        _, status, places, tail = scan(client, after)
        assert status == "Ok", status
        found.update(places_to_pairs(tail, places[1]))
        if places[0] is None:
            client.close()
            return found
        after = places[0]


def scan(client, after):
    client.socket.sendall(client.frame("scan", [b"", after, 10_000, 1 << 20, False]))
    return client.read()


def places_to_pairs(tail, rows):
    import msgpack
    pairs, at = {}, rows * 8
    for n in range(rows):
        length = int.from_bytes(tail[n * 8 : n * 8 + 8], "little") & 0xFFFFFF
        entry = msgpack.unpackb(tail[at : at + length], raw=True, strict_map_key=False)[0]
        pairs[entry[0]] = entry[1]
        at += length
    return pairs


def main():
    with processes.Bench("scope") as bench:
        a, b = bench.region("a", feed__access=ACCESS), bench.region("b")
        a.start("ready")
        b.start("ready")
        source, target = native.Client(a.client_port), native.Client(b.client_port)
        for n in range(300):
            source.put_many([(b"t1:%d" % n, b"one %d" % n), (b"t2:%d" % n, b"two %d" % n), (b"T1:%d" % n, b"case"), (b"t1%d" % n, b"no colon")])
        target.put(b"own:key", b"never touched")
        target.put(b"t9:own", b"never touched")

        one = bench.follower(b, [bench.link("one", a, scope={"prefixes": ["t1:"]})], name="one", certificate="tenant").start()
        processes.caught_up(one, "one")
        expected = {b"t1:%d" % n: b"one %d" % n for n in range(300)} | {b"own:key": b"never touched", b"t9:own": b"never touched"}
        assert keys_of(b) == expected, "the bootstrap brought something else than t1:"

        # Stream, deletes and expiry, with load beside the scope.
        soon = int(time.time() * 1e6) + 700_000
        for n in range(100):
            source.put(b"t1:%d" % n, b"changed")
            source.put(b"t2:%d" % n, b"changed")
            source.delete(b"t1:%d" % (100 + n))
            source.delete(b"t2:%d" % (100 + n))
            source.put(b"t1:soon:%d" % n, b"gone soon", soon)
            source.put(b"t2:soon:%d" % n, b"gone soon", soon)
        expected = {b"t1:%d" % n: (b"changed" if n < 100 else b"one %d" % n) for n in range(300) if not 100 <= n < 200}
        expected |= {b"own:key": b"never touched", b"t9:own": b"never touched"}
        eventually(lambda: keys_of(b) == expected, "writes, deletes and expiry of t1: are in B and nothing else", 30)

        # Nothing matches, and yet cursors and pins move.
        def pins():
            return processes.run_zaris("feed", "followers", "--url", a.url, "-o", "json").stdout
        before = {s["id"]: s["cursor"] for s in processes.link_status(one, "one")["segments"]}
        for n in range(3000):
            source.put(b"t2:more:%d" % n, b"x")
        def moved():
            now = {s["id"]: s["cursor"] for s in processes.link_status(one, "one")["segments"]}
            return sum(now[i] != before[i] for i in before) > 200
        eventually(moved, "cursors advance although nothing matches", 30)
        assert '"one"' in pins(), "zaris feed followers does not name the link"

        # A second link of another scope beside it; then more prefixes for the first.
        two = bench.follower(b, [bench.link("two", a, scope={"prefixes": ["t2:"]})], name="two").start()
        processes.caught_up(two, "two")
        expected |= {k: v for k, v in keys_of(a).items() if k.startswith(b"t2:")}
        eventually(lambda: keys_of(b) == expected, "t2: is there beside t1:", 30)
        source.put(b"t1:both", b"1")
        source.put(b"t2:both", b"2")
        eventually(lambda: target.get(b"t1:both") == b"1" and target.get(b"t2:both") == b"2", "both links carry their own")
        assert sum(processes.link_status(one, "one")["bootstraps_total"].values()) == 256, "the second link disturbed the first one's marks"

        # What the table does not grant is refused, not trimmed.
        greedy = bench.follower(b, [bench.link("greedy", a, scope={"prefixes": ["t3:"]})], name="greedy", certificate="tenant").start()
        eventually(lambda: any(w in processes.link_status(greedy, "greedy")["reason"] for w in ("unauthori", "scope_mismatch", "forbidden")), "a scope that is not granted is refused", 20)
        greedy.stop()
        overlap = bench.follower(b, [bench.link("overlap", a, scope={"prefixes": ["t1:x"]})], name="overlap").start()
        eventually(lambda: "scope_mismatch" in processes.link_status(overlap, "overlap")["reason"], "a scope that overlaps another link's is refused", 20)
        overlap.stop()

        two.stop()
        two.config["links"][0]["scope"]["prefixes"] = ["t2:", "T1:"]
        two.start()
        processes.caught_up(two, "two")
        for n in range(300):
            assert target.get(b"T1:%d" % n) == b"case", "the added prefix's old keys are not in B"
        for k, v in ((b"own:key", b"never touched"), (b"t9:own", b"never touched")):
            assert target.get(k) == v

        # Narrowed: what left stays, and what B writes there since is its own; widened again without anything of B's there, as if nothing had been.
        def scope_of_two(*prefixes):
            two.stop()
            two.config["links"][0]["scope"]["prefixes"] = list(prefixes)
            two.start()
        scope_of_two("T1:")
        processes.caught_up(two, "two")
        assert target.get(b"t2:0") is not None
        source.put(b"t2:0", b"while it was out")
        scope_of_two("T1:", "t2:")
        processes.caught_up(two, "two")
        assert target.get(b"t2:0") == b"while it was out"
        assert processes.link_status(two, "two")["target_rollbacks_total"] == 0, "a scope that the link had before is no loss of the target's"
        scope_of_two("T1:")
        processes.caught_up(two, "two")
        target.put(b"t2:own", b"written by B")
        target.put(b"t2:1", b"overwritten by B")
        scope_of_two("T1:", "t2:")
        eventually(lambda: "scope_holds_data" in (processes.link_status(two, "two")["reason"] or ""), "what B wrote there is not taken without a word", 20)
        scope_of_two("T1:")
        processes.caught_up(two, "two")
        shown = processes.run_zaris("link", "drop-scope", "two", "--url", b.url, "--yes").stderr
        assert "2 there stay" in shown, shown
        assert target.get(b"t2:own") == b"written by B" and target.get(b"t2:1") == b"overwritten by B"
        assert [k for k in keys_of(b) if k.startswith(b"t2:")] in ([b"t2:own", b"t2:1"], [b"t2:1", b"t2:own"]), "what the link brought is gone"
        assert target.get(b"T1:0") == b"case"

        # The same name once more, by mistake, with another scope: the newer one has it, the older one says so and does not take it back.
        copied = sum(processes.link_status(one, "one")["bootstraps_total"].values())
        double = bench.follower(b, [bench.link("one", a, scope={"prefixes": ["t1:", "t5:"]})], name="double").start()
        processes.caught_up(double, "one")
        eventually(lambda: processes.link_status(one, "one")["state"] == "held", "the one that was taken the place of is held", 30)
        assert "term_superseded" in processes.link_status(one, "one")["reason"], processes.link_status(one, "one")["reason"]
        source.put(b"t5:new", b"1")
        eventually(lambda: target.get(b"t5:new") == b"1", "the newer one carries its scope", 30)
        assert processes.link_status(double, "one")["reconnects_total"] == 0, "the older one disturbs it"
        assert sum(processes.link_status(one, "one")["bootstraps_total"].values()) == copied
        double.stop()
        one.stop()
        one.start()
        processes.caught_up(one, "one")
    print("1 passed, 0 failed")


main()
