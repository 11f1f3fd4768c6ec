#!/usr/bin/python3
"""The witness notices what must never be, and nothing else: a judge that always said yes would let every cut pass."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from witness import Read, Write, judge  # noqa: E402

before = [Write("a", 1, 2, 5, 1), Read(3, 4, 1)]
after = [Write("b", 10, 11, 6, 2), Read(12, 13, 2)]
assert judge(*[[x for x in before + after if isinstance(x, kind)] for kind in (Write, Read)]) == []


def wrong(*more):
    everything = [*before, *after, *more]
    return judge([x for x in everything if isinstance(x, Write)], [x for x in everything if isinstance(x, Read)])


assert "old owner" in wrong(Write("a", 11.5, 12, 5, 0))[0]
assert wrong(Write("a", 9, 12, 5, 0)) == [], "asked before the new owner had acknowledged: it may have been done before"
assert "old value" in wrong(Read(11.5, 12, 1))[0]
assert wrong(Read(10.5, 12, 1)) == [], "asked before that"
assert "two owners" in wrong(Write("c", 20, 21, 6, 0))[0]
print("1 passed, 0 failed")
