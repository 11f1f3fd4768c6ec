#!/usr/bin/python3
"""compile_error_pages.py FOLDER OUT.cpp: every docs/reference/errors/CODE.md into the program, for `zaris explain`."""
import pathlib
import sys

folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
pages = [(page.stem, page.read_text()) for page in sorted(folder.glob("*.md")) if page.stem != "README"]
text = '#include "cluster/cli/explain.hpp"\n\nnamespace zaris::cli {\n\nstd::span<const ErrorPage> error_pages() {\n'
text += f"  static constexpr ErrorPage pages[{max(1, len(pages))}] = {{\n"
for code, body in pages:
    assert ')"page' not in body.replace(")page\"", ""), code
    text += f'    {{"{code}", R"page({body})page"}},\n'
text += f"  }};\n  return {{pages, {len(pages)}}};\n}}\n\n}}  // namespace zaris::cli\n"
if not out.exists() or out.read_text() != text:
    out.write_text(text)
