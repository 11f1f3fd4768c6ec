#!/usr/bin/python3
"""docs/reference/events.md lists every event that a daemon writes to its log, with its level, and none that no longer exists.

In the source an event's name stands behind its level: write(Level::info, "ready", …), log(LogLine::Level::warning, "stuck", …), and in the
region's core behind its weight: say(Weight::info, "leading", …). One that ends
with an underscore is a family (stream_end_REASON). The codes with which a link starts over or is held become events too. On the page
the names are in the first cells of tables whose first column is called `event` (a name in the source) or `code` (a variable there).
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1]).resolve()
page = "docs/reference/events.md"
written_event = re.compile(r'(?:Level|Weight)::(\w+)\s*,\s*([^,;"?]+\?\s*)?"([a-z0-9_]+)"')
link_code = re.compile(r'\b(?:again_later|hold)\((?:\w+\s*\?\s*)?"([a-z_]+)"(?:\s*:\s*"([a-z_]+)")?')
texts = {p: p.read_text(errors="replace") for folder in ("cluster", "feed", "follower", "cursor", "programs") for p in sorted((root / folder).rglob("*.[ch]pp"))}

written, codes, literals = {}, {}, set()
for path, text in texts.items():
    where = path.relative_to(root).as_posix()
    for level, condition, name in written_event.findall(text):
        written.setdefault(name, {}).setdefault("" if condition else level, where)  # level ? … : …, name ? … : …: not known which
    for pair in link_code.findall(text):
        codes.update((code, where) for code in pair if code)
    literals.update(re.findall(r'"([a-z0-9_]+)"', text))

listed = {"event": {}, "code": {}}  # kind → name → the levels' cell
kind = None
for line in (root / page).read_text().splitlines():
    cells = [c.strip() for c in line.strip("|").split("|")] if line.startswith("|") else []
    if not cells:
        kind = None
    elif cells[0] in listed:
        kind = cells[0]
    elif kind:
        for name in re.findall(r"`([a-z0-9_]+)[A-Z]*`", cells[0]):
            listed[kind][name] = listed[kind].get(name, "") + cells[1]

errors = []
for name, levels in written.items():
    for level, where in levels.items():
        if name not in listed["event"]:
            errors.append(f"{name}: {where} writes it, {page} does not list it")
        elif level not in listed["event"][name]:
            errors.append(f"{name}: {where} writes it as {level}, {page} says {listed['event'][name]}")
errors += [f"{code}: {where} starts a link over or holds it with this code, {page} does not list it" for code, where in codes.items() if code not in listed["code"] and code not in listed["event"]]
errors += [f"{name}: {page} lists it, nothing writes it" for name in listed["event"] if name not in written]
errors += [f"{code}: {page} lists it, no source names it" for code in listed["code"] if code not in literals]
if len(written) < 50:
    errors.append(f"only {len(written)} events were found in the source: is the pattern still right?")
for e in sorted(errors):
    print(e, file=sys.stderr)
checked = set(written) | set(codes) | set(listed["event"]) | set(listed["code"])
print(f"{len(checked) - len(errors)} passed, {len(errors)} failed")
sys.exit(1 if errors else 0)
