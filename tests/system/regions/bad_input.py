#!/usr/bin/python3
"""Whatever is wrong with configuration, certificates or the cursor's disk: a clear error with a code, the documented exit status, nothing lost."""
import os
import pathlib
import random
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import native, processes  # noqa: E402
from harness.waiting import eventually  # noqa: E402

passed = 0


def check(what, good, detail=""):
    global passed
    if not good:
        raise AssertionError(f"{what}: {detail}")
    passed += 1


def start_and_fail(process, seconds=20):
    """Exit status and last words of a process that must not come up."""
    process.start(wait=None)
    status = process.process.wait(seconds)
    process.process = None
    return status, process.tail()


def reason(follower, link="l"):
    return processes.link_status(follower, link)["reason"]


def main():
    with processes.Bench("bad") as bench:
        a, b = bench.region("a"), bench.region("b")
        a.start("ready")
        b.start("ready")
        source = native.Client(a.client_port)
        source.put_many([(b"k:%d" % n, b"v%d" % n) for n in range(2000)])

        # ---- certificates: the link says which kind of trouble, and goes on when it is mended
        other = bench.folder / "other"
        processes.run_zaris("tls", "dev-ca", "--dir", other, "--client", "follower")
        good = {k: str(bench.certificates / f) for k, f in (("ca", "ca.crt"), ("cert", "follower.crt"), ("key", "follower.key"))}
        for what, tls, words in (
            ("wrong CA", {**good, "ca": str(other / "ca.crt")}, "tls_unknown_ca"),
            ("certificate of another CA", {**good, "cert": str(other / "follower.crt"), "key": str(other / "follower.key")}, "tls_"),
        ):
            f = bench.follower(b, [bench.link("l", a)], name="tls-" + what.replace(" ", "-"))
            f.config["tls"] = tls
            f.start()
            eventually(lambda: words in reason(f), f"{what} is named", 20)
            check(what, processes.link_status(f, "l")["state"] == "backoff", reason(f))
            check(what, f.stop() == 0, "exit status")
        f = bench.follower(b, [bench.link("l", a)], name="no-certificate")
        f.config["tls"] = {"ca": good["ca"]}
        status, words = start_and_fail(f)
        check("no client certificate", status == 3 and "client certificate" in words, (status, words))
        f = bench.follower(b, [bench.link("l", a)], name="name")
        f.config["links"][0]["source"]["url"] = f"zariss://localhost.localdomain:{a.feed_port}"
        wrong_name = subprocess.run(["getent", "hosts", "localhost.localdomain"], capture_output=True).returncode == 0
        if not wrong_name:  # any other name of this machine that is not in the certificate
            f.config["links"][0]["source"]["url"] = f"zariss://127.0.0.2:{a.feed_port}"
            f.config["tls"] = good
        f.start()
        eventually(lambda: "tls_name_mismatch" in reason(f) or "feed_connect_failed" in reason(f), "a wrong name is named", 20)
        f.stop()

        # ---- a good follower, whose cursors are then mistreated
        f = bench.follower(b, [bench.link("l", a)], name="good").start()
        processes.caught_up(f, "l")
        second = bench.follower(b, [bench.link("l", a)], name="second", cursor__path=f.config["cursor"]["path"])
        status, words = start_and_fail(second)
        check("two followers on one store", status == 3 and "cursor_locked" in words, (status, words))
        check("clean stop", f.stop() == 0)
        store = pathlib.Path(f.config["cursor"]["path"])
        kept = bench.folder / "kept"
        shutil.copytree(store, kept)
        data = store / "cursors.mdb"

        def damaged(what, damage):
            shutil.rmtree(store)
            shutil.copytree(kept, store)
            damage()
            f.start()
            processes.caught_up(f, "l")
            check(what, processes.link_status(f, "l")["bootstraps_total"]["new"] == 0, "it bootstrapped although the marks are there")
            check(what, f.metrics()["zaris_cursor_store_set_aside"] == 1, "not reported")
            check(what, list(store.glob("*damaged*")) != [], "nothing was set aside")
            check(what, f.stop() == 0)

        rng = random.Random(5)

        def flip():
            raw = bytearray(data.read_bytes())
            for _ in range(200):
                raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            data.write_bytes(raw)

        damaged("cursor file cut in half", lambda: os.truncate(data, data.stat().st_size // 2))
        damaged("cursor file of no length", lambda: os.truncate(data, 0))
        damaged("cursor file with flipped bits", flip)
        damaged("cursor file of random bytes", lambda: data.write_bytes(rng.randbytes(32768)))

        # ---- a cursor store of another target, and of another source
        shutil.rmtree(store)
        shutil.copytree(kept, store)
        c = bench.region("c").start("ready")
        f.config["target"]["url"] = c.url
        f.start()
        eventually(lambda: "target_changed" in reason(f), "another target is refused", 20)
        check("another target", processes.link_status(f, "l")["state"] == "held")
        f.stop()
        f.config["target"]["url"] = b.url
        f.config["links"][0]["source"]["url"] = f"zariss://127.0.0.1:{c.feed_port}"
        f.start()
        eventually(lambda: "wrong_cluster" in reason(f), "another source is refused", 20)
        check("another source", processes.link_status(f, "l")["state"] == "held")
        f.stop()
        f.config["links"][0]["source"]["url"] = f"zariss://127.0.0.1:{a.feed_port}"

        # ---- configuration: every mistake at once, each with its place; exit status 3
        bad = bench.folder / "bad.yaml"
        bad.write_text("regoin: a\nmemory:\n  max_bytes: 5\n  max_bytes: 6GiB\nlog: {pin_age: 3 parsecs}\nlisteners:\n  client: {address: nowhere}\n")
        run = subprocess.run([str(processes.BIN / "zarisd"), "--config", str(bad), "--check-config"], capture_output=True, text=True)
        for word in ("bad.yaml:1", "regoin", "region", "bad.yaml:4", "pin_age", "nowhere", "data_dir"):
            check("bad configuration", word in run.stderr, f"{word} is not in: {run.stderr}")
        check("bad configuration", run.returncode == 3, run.returncode)
        check("usage", subprocess.run([str(processes.BIN / "zarisd"), "--nonsense"], capture_output=True).returncode == 2)
        check("unreachable", processes.run_zaris("kv", "get", "x", "--url", "zaris://127.0.0.1:1/main", "--timeout", "1s", check=False).returncode in (4, 8))

        # ---- nothing was lost on the way
        f.start()
        processes.caught_up(f, "l")
        processes.assert_equal(a, b, bench.folder)
    print(f"{passed} passed, 0 failed")


main()
