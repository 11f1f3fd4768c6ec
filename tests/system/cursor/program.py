#!/usr/bin/python3
"""The real zaris-cursor: cursors move from one directory to another through a file, a rewind asks on a terminal, root leaves
no file that the follower cannot open, and the follower's configuration names the directory."""
import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile

program = sys.argv[1]


def run(*words, status=0, **options):
    done = subprocess.run([program, *map(str, words)], **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}, text=True, timeout=30)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done


def export_of(segments, revision):
    lines = [{"kind": "store", "format": 1, "store_id": "0000000000000001", "exported": "2026-01-01T00:00:00Z"},
             {"kind": "link", "link": "a-to-b", "follower": "f", "source": "00000000000000a1", "target": "00000000000000b2",
              "scope_id": "0000000000000000", "scope": "", "source_segments": segments, "accepted": None, "accepted_histories": [],
              "rewind": False, "rewind_to": None, "rewind_segments": [], "paused": False, "paused_reason": "", "version": 0}]
    for segment in range(segments):
        lines.append({"kind": "cursor", "link": "a-to-b", "source": "00000000000000a1", "target": "00000000000000b2",
                      "scope_id": "0000000000000000", "segment": segment, "history": "0000000000001111", "generation": 7,
                      "revision": revision, "generation_id": "0000000000abcdef", "phase": "stream", "source_time_us": 1700000000000000,
                      "persisted_us": 1700000000000005, "records_applied": 1, "bytes_applied": 2, "bootstraps": 1})
    lines.append({"kind": "end", "links": 1, "cursors": segments})
    return "".join(json.dumps(line) + "\n" for line in lines)


def on_terminal(answer, *words):
    """Runs the program on a pseudo-terminal and types `answer`; its exit status."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(program, [program, *map(str, words)])
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(terminal, 1000)
    os.write(terminal, answer.encode() + b"\n")
    try:
        while os.read(terminal, 1000):
            pass
    except OSError:
        pass  # the terminal's other end is closed
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


with tempfile.TemporaryDirectory() as scratch:
    root = pathlib.Path(scratch)
    root.chmod(0o755)
    first, second = root / "first", root / "second"
    saved = root / "saved.ndjson"
    saved.write_text(export_of(16, 500))

    run("--path", first, "import", saved, "--yes")
    listed = json.loads(run("--path", first, "list", "-o", "json").stdout)
    assert listed["links"][0]["cursors"] == 16, listed
    with open("/dev/full", "w") as full:
        run("--path", first, "list", status=3, stdout=full)
    moved = root / "moved.ndjson"
    run("--path", first, "export", "--file", moved)
    run("--path", second, "import", moved, "--yes")
    same = [run("--path", path, "show", "a-to-b", "-o", "ndjson").stdout for path in (first, second)]
    assert same[0] == same[1] and len(same[0].splitlines()) == 16

    # With the environment in place of --path.
    assert run("list", "-o", "name", env={**os.environ, "ZARIS_CURSOR_PATH": str(first)}).stdout == "a-to-b\n"

    # A rewind asks; no terminal, no --yes: nothing.
    run("--path", first, "rewind", "a-to-b", status=2, stdin=subprocess.DEVNULL)
    assert on_terminal("n", "--path", first, "rewind", "a-to-b") == 1
    assert not json.loads(run("--path", first, "list", "-o", "json").stdout)["links"][0]["rewind"]
    assert on_terminal("y", "--path", first, "rewind", "a-to-b", "--segment", "3") == 0
    link = json.loads(run("--path", first, "list", "-o", "json").stdout)["links"][0]
    assert link["rewind"] and link["rewind_segments"] == [3], link
    assert "7:500" in run("--path", first, "show", "a-to-b", "--segment", "3").stdout

    # Root works as the directory's owner.
    if os.geteuid() == 0:
        third = root / "third"
        third.mkdir()
        os.chown(third, 65534, 65534)
        saved.chmod(0o644)
        run("--path", third, "import", saved, "--yes")
        owners = {path.name: path.stat().st_uid for path in third.iterdir()}
        assert owners and set(owners.values()) == {65534}, owners

    # Damage: reported with the way on, never touched by a command.
    data = second / "cursors.mdb"
    os.truncate(data, data.stat().st_size // 2)
    before = data.read_bytes()
    for words in (("list",), ("rewind", "a-to-b", "--yes"), ("import", saved, "--yes"), ("export",)):
        done = run("--path", second, *words, status=3)
        assert "cursor_damaged" in done.stderr and "try: " in done.stderr, done.stderr
    assert data.read_bytes() == before

    # The follower's own configuration says where.
    config = root / "follower.yaml"
    config.write_text(f"name: f\ncursor:\n  path: {first}\ntarget:\n  url: zaris://127.0.0.1:1\n"
                      "links:\n  - name: a-to-b\n    source:\n      url: zaris://127.0.0.1:2\n")
    assert run("--config", config, "list", "-o", "name").stdout == "a-to-b\n"
    config.write_text("cursor:\n  pathh: x\n")
    assert "pathh" in run("--config", config, "list", status=3).stderr
    run("--config", root / "no-such.yaml", "list", status=3)
print("ok")
