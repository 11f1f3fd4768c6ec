#!/usr/bin/python3
"""Every error code that the sources can show has a page in docs/reference/errors, and every page has a code that still exists.

A code is found in the source where it is
- an argument of a function whose parameter is called `code` (failure, hold, again_later, refuse, …),
- assigned to something called code, or the first member of an Error, a SessionEnd or an event in braces,
- made from a prefix (cluster/lmdb), or
- a name that is shown as a code: why a stream ends, a status of the native protocol.
A page begins with `# CODE: title` and has `## What to do` with at least one item.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1]).resolve()
pages_folder = root / "docs/reference/errors"

# Codes without a page, and why nobody looks for one.
without_page = {
    "record_malformed": "whoever reads records shows its text under a code of its own",
    "moved": "asked again by itself, never shown",
    "ownership_changing": "asked again by itself, never shown",
    "migrating": "asked again by itself, never shown",
    "replica_sync_pending": "asked again by itself, never shown",
    "replica_write_rejected": "asked again by itself, never shown",
    "list_gone": "no node of this version answers it",
}
# Pages about what is no code, and why they are wanted.
without_code = {"cursor_set_aside": "the event of an alert; its runbook and the page of cursor_damaged lead there"}
# Files that put a suffix to `code_prefix`, and the prefixes that their users give.
prefixes = {"cluster/lmdb/checked_lmdb.cpp": ("coordinator", "cursor"), "cluster/lmdb/process_lock.cpp": ("cursor", "data_dir")}

token = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|//[^\n]*|/\*(?:.|\n)*?\*/')
code_parameter = re.compile(r"\b(\w+)(?:\s*=\s*\[[^\]]*\])?\(([^();]*\b(?:string|string_view|char)\b[\s&*]*code\b[^();]*)\)")
literal = r'"[a-z][a-z0-9_]*"'
value = rf"(?:[^\"{{}};,]*\?\s*)?{literal}(?:\s*:\s*{literal})?"  # one literal, or condition ? one : other
text_follows = r'(?=\s*(?:fmt::|std::|"[^"\n]* |[a-z][^,{}]*\+|\w+,\s*"[^"\n]* ))'
patterns = [
    re.compile(r"\b(?:\w+_)?code_?\s*=(?!=)([^;{}]*);"),
    re.compile(rf"(?:\b(?:Error|SessionEnd)(?:\s+\w+)?|\berror\s*=)\s*\{{\s*({value})\s*,"),
    re.compile(rf"(?:\breturn|\(\s*(?:[\w:.,?\s]+,\s*)?)\s*\{{\s*({value})\s*,{text_follows}"),
    re.compile(rf'\{{"code",\s*({value})\}}'),
]


def without_comments(text):
    return token.sub(lambda m: " " if m.group().startswith(("//", "/*")) else m.group(), text)


def arguments(text, begin):
    """The arguments of the call whose parenthesis opens at `begin`."""
    out, depth, start, at = [], 0, begin + 1, begin
    while at < len(text):
        if found := token.match(text, at):
            at = found.end()
            continue
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
        if depth == 0 or (depth == 1 and text[at] == ","):
            out.append(text[start:at].strip())
            start = at + 1
        if depth == 0:
            break
        at += 1
    return out


def literals(expression):
    """The codes that an expression can be: a literal, or those behind the marks of its conditions."""
    return re.findall(r'(?:^|[?:=])\s*"([a-z][a-z0-9_]*)"', expression.strip())


sources = {p.relative_to(root).as_posix(): without_comments(p.read_text(errors="replace"))
           for folder in ("cluster", "feed", "follower", "cursor", "programs") for p in sorted((root / folder).rglob("*.[ch]pp"))}
takes_code = {}  # function → places of its parameter `code`
for text in sources.values():
    for function, parameters in code_parameter.findall(text):
        for place, parameter in enumerate(parameters.split(",")):
            if re.search(r"\bcode(\s*=.*)?$", parameter.strip()):
                takes_code.setdefault(function, set()).add(place)
call = re.compile(r"\b(" + "|".join(map(re.escape, sorted(takes_code))) + r")\(")

codes = {}  # code → the first place that can show it
for name, text in sources.items():
    found = []
    for match in call.finditer(text):
        given = arguments(text, match.end() - 1)
        if any("Weight::" in one for one in given):
            continue  # an event of the region's core, which names it where others name a code
        found += [code for place in takes_code[match.group(1)] if place < len(given) for code in literals(given[place])]
    found += [code for pattern in patterns for expression in pattern.findall(text) for code in literals(expression)]
    found += re.findall(r'case EndReason::\w+: return "(\w+)";', text)
    found += [prefix + suffix for prefix in prefixes.get(name, ()) for suffix in re.findall(r'code_prefix \+ "(_\w+)"', text)]
    for code in found:
        codes.setdefault(code, name)
statuses = re.findall(r'"([A-Z]\w+)"', sources["cluster/record/status.cpp"].split("{", 3)[3].split("}")[0])
for status in statuses:
    codes.setdefault(re.sub(r"(?<!^)([A-Z])", r"_\1", status).lower(), "cluster/record/status.cpp")
codes.pop("ok", None)

pages = {p.stem: p.read_text() for p in sorted(pages_folder.glob("*.md"))}
errors = [f"{code}: {where} can show it, docs/reference/errors/{code}.md is missing" for code, where in codes.items() if code not in pages and code not in without_page]
for code, text in pages.items():
    if code not in codes and code not in without_code:
        errors.append(f"{code}: it has a page, and no source shows it")
    if not re.match(rf"# {code}: \S[^\n]*\n\n(?:.|\n)*## What to do\n\n- ", text) or "\n\n\n" in text or not text.endswith("\n"):
        errors.append(f"{code}: the page needs `# {code}: title` and `## What to do` with an item, one empty line between")
errors += [f"{code}: is an exception here, and " + ("has a page" if code in pages else "no source shows it") for code in without_page if code in pages or code not in codes]
if len(codes) < 100 or len(statuses) < 27:
    errors.append(f"only {len(codes)} codes and {len(statuses)} statuses were found: are the patterns still right?")
for e in sorted(errors):
    print(e, file=sys.stderr)
checked = set(codes) | set(pages) | set(without_page)
print(f"{len(checked) - len(errors)} passed, {len(errors)} failed")
sys.exit(1 if errors else 0)
