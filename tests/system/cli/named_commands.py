#!/usr/bin/python3
"""Every `zaris …` command that an error page, a runbook or a link's next step names is one that `zaris` understands: its verbs, its flags and, in a next
step, which is there to be typed, what must be given with it."""
import functools
import os
import pathlib
import re
import shlex
import subprocess

root = pathlib.Path(__file__).resolve().parents[3]
program = pathlib.Path(os.environ["ZARIS_BIN"]) / "zaris"
# Words that stand for any command, and verbs of other programs that `zaris` hands on as they are.
placeholders, handed_on = {"VERB", "GROUP"}, {("feed", "tail"), ("feed", "segments"), ("cursor",)}


@functools.lru_cache(maxsize=None)
def help_of(path):
    return subprocess.run([str(program), *path, "--help"], capture_output=True, text=True, timeout=30).stdout


def section(path, title):
    found = re.search(rf"^{title}:\n((?:  .*\n|\n(?=  ))*)", help_of(path), re.M)
    return found.group(1) if found else ""


def verbs(path):
    return set(re.findall(r"^  ([a-z][a-z-]*)", section(path, "Subcommands"), re.M))


def wrong_with(command, complete):
    words, path = shlex.split(command.replace("…", "X"))[1:], ()
    while words and words[0] in verbs(path):
        path += (words.pop(0),)
    if any((*path, *words)[:len(other)] == other for other in handed_on) or (words and words[0] in placeholders):
        return None
    if verbs(path) and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        return f"zaris {' '.join(path)} has no verb {words[0]}"
    known = help_of(path) + help_of(())
    for word in words:
        if word.startswith("-") and not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", known):
            return f"zaris {' '.join(path)} has no flag {word}"
    given = [word for at, word in enumerate(words) if not word.startswith("-") and (at == 0 or not words[at - 1].startswith("-"))]
    wanted = re.findall(r"^  ([A-Z]+) .*REQUIRED", section(path, "Positionals"), re.M)
    if complete and (verbs(path) or len(given) < len(wanted)):
        return f"zaris {' '.join(path)} wants {' '.join(wanted) or 'a verb'}"
    return None


def commands(text):
    for quoted in re.findall(r"`(zaris (?:[^`]|`\w)*?)`", text):
        if re.search(r"\w\|\w", quoted):
            continue  # verb|verb: a list of verbs
        yield from (one.strip() for one in quoted.split(" | "))


def main():
    checked, wrong = 0, []
    pages = [*(root / "docs/reference/errors").glob("*.md"), *(root / "docs/runbooks").glob("*.md")]
    steps = root / "follower/link/next_step.cpp"
    for path in [*pages, steps]:
        text = re.sub(r'"\s*\n\s*"', "", path.read_text())
        for command in commands(text):
            checked += 1
            if command.startswith("zaris ") and (what := wrong_with(command, path == steps)):
                wrong.append(f"{path.relative_to(root)}: `{command}`: {what}")
    # A next step never leads back to where it is read.
    rows = re.findall(r'Row\{"(\w+)", ((?:"(?:[^"\\]|\\.)*"\s*)+)\}', steps.read_text())
    assert len(rows) > 20, "no next steps were found"
    wrong += [f"next step of {code} leads back to the link's own status" for code, step in rows if "zaris link show" in step or "zaris explain" in step]
    # Whatever holds a link has a next step, and so has whatever stops a segment.
    table = (root / "docs/reference/link-status.md").read_text()
    for state in ("held", "stuck"):
        codes = re.search(rf"^\| `{state}` \| (`.*`) \|$", table, re.M).group(1)
        wrong += [f"no next step for {code} ({state})" for code in re.findall(r"`(\w+)`", codes) if code not in dict(rows)]
    for line in wrong:
        print(line)
    assert not wrong, f"{len(wrong)} of {checked} are wrong"
    assert checked > 100, checked
    print(f"{checked} passed, 0 failed")


main()
