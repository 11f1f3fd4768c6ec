#!/usr/bin/python3
"""Every relative link in the project's Markdown leads somewhere."""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(sys.argv[1]).resolve()
errors = []
listed = subprocess.run(["git", "-C", str(root), "ls-files", "*.md"], capture_output=True, text=True).stdout.split()
pages = [root / name for name in listed] or sorted(p for p in root.rglob("*.md") if "build" not in p.parts)
for page in pages:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists():
            errors.append(f"{page.relative_to(root)}: {target} is not there")
for e in errors:
    print(e, file=sys.stderr)
print(f"{len(pages) - len(errors)} passed, {len(errors)} failed")
sys.exit(1 if errors else 0)
