#!/usr/bin/python3
"""A follower that is started again with other numbers of connections and workers goes on where it was, without a copy; so does one whose cursor store has too few
rows, or rows of segments that the source does not have. A set that names a segment twice is refused.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import native, processes  # noqa: E402

SEGMENTS = 16


class Source:
    def __init__(self, region):
        self.client, self.rounds = native.Client(region.client_port), 0

    def change(self):
        """A thousand puts of keys old and new, and deletes of some that are there."""
        self.rounds += 1
        self.client.put_many([(b"k:%d" % n, b"round %d" % self.rounds) for n in range(self.rounds * 200, self.rounds * 200 + 1000)])
        self.client.put_many([(b"k:%d" % n, None) for n in range(self.rounds * 200 - 100, self.rounds * 200)])


def goes_on(follower, source, regions, folder):
    """Nothing is copied, and what was written meanwhile and what is written now arrives."""
    source.change()
    follower.start()
    processes.caught_up(follower, "l")
    source.change()
    processes.caught_up(follower, "l")
    processes.assert_equal(*regions, folder)
    status = processes.link_status(follower, "l")
    assert sum(status["bootstraps_total"].values()) == 0, status["bootstraps_total"]
    assert len(status["segments"]) == SEGMENTS and status["target_rollbacks_total"] == 0 and status["gap_errors_total"] == 0, status
    assert follower.stop() == 0


def numbers(follower, workers, connections):
    follower.config["apply"] = {"workers": workers}
    follower.config["links"][0]["connections"] = connections


def exported(path):
    return [json.loads(line) for line in processes.run_zaris("--path", path, "export", "--file", "-", program="zaris-cursor").stdout.splitlines()]


def imported(folder, lines, check=True):
    """A new store of these rows."""
    folder.mkdir()
    lines[-1]["cursors"] = sum(line["kind"] == "cursor" for line in lines)
    (folder / "rows").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return processes.run_zaris("--path", folder / "store", "import", folder / "rows", "--yes", program="zaris-cursor", check=check)


def main():
    with processes.Bench("other-shape") as bench:
        a, b = bench.region("a", segments=SEGMENTS).start("ready"), bench.region("b", segments=64).start("ready")
        source = Source(a)
        source.change()
        follower = bench.follower(b, [bench.link("l", a)])
        numbers(follower, 2, 1)
        follower.start()
        processes.caught_up(follower, "l")
        assert processes.link_status(follower, "l")["bootstraps_total"]["new"] == SEGMENTS, "what is asserted below would be seen"
        assert follower.stop() == 0
        for workers, connections in ((7, 5), (1, 16), (3, 64), (2, 1)):
            numbers(follower, workers, connections)
            goes_on(follower, source, (a, b), bench.folder)

        rows = exported(follower.config["cursor"]["path"])
        cursors = [row for row in rows if row["kind"] == "cursor"]
        assert len(cursors) == SEGMENTS
        beyond = [{**cursors[0], "segment": segment, "revision": 10**9} for segment in (SEGMENTS, SEGMENTS + 1, 255, 16383)]
        beyond[1]["history"] = "00000000000000bb"
        for name, these in (("too-few", [row for row in rows if row["kind"] != "cursor" or row["segment"] % 3]), ("too-many", rows[:-1] + beyond + rows[-1:]),
                            ("others", [row for row in rows if row["kind"] != "cursor"][:-1] + beyond + rows[-1:])):
            imported(bench.folder / name, these)
            follower.config["cursor"]["path"] = str(bench.folder / name / "store")
            numbers(follower, 3, 2)
            goes_on(follower, source, (a, b), bench.folder)
            after = {row["segment"]: row for row in exported(bench.folder / name / "store") if row["kind"] == "cursor"}
            assert all(after[row["segment"]]["revision"] >= row["revision"] for row in cursors), "a cursor for every segment again"
        doubled = imported(bench.folder / "doubled", rows[:-1] + cursors[:1] + rows[-1:], check=False)
        assert doubled.returncode != 0 and "twice" in doubled.stderr and not (bench.folder / "doubled" / "store").exists(), doubled
    print("1 passed, 0 failed")


main()
