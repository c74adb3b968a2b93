"""Computes the difference of two texts as the lines of a unified diff.

Rule: every removed or added line is shown, whatever the texts are; only the search for equal lines between the first
and the last difference is limited. Only a line feed ends a line.
"""

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import TypeAlias

import msgspec

_CONTEXT = 3
"""Equal lines around each difference."""
_COMPARED = 4_000_000
"""Pairs of lines that are compared, a second's work at most: beyond that, all lines are shown as removed and added."""

_Opcode: TypeAlias = tuple[str, int, int, int, int]
"""An opcode as in difflib: a tag, the range of lines in the old text, and in the new one."""


class DiffLine(msgspec.Struct, frozen=True):
    """One line: `sign` is `-`, `+`, a blank, `@` for the head of a hunk, or a backslash for a missing line feed."""

    sign: str
    text: str


def unified_diff(before: str, after: str) -> Iterator[DiffLine]:
    """Yield the lines of a diff, without the names of files."""
    old, new = _split(before), _split(after)
    for hunk in _hunks(old, new):
        (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = hunk[0], hunk[-1]
        yield DiffLine("@", f"@ -{_range(old_start, old_end)} +{_range(new_start, new_end)} @@")
        for tag, old_first, old_last, new_first, new_last in hunk:
            if tag == "equal":
                yield from _lines(" ", old[old_first:old_last])
            else:
                yield from _lines("-", old[old_first:old_last])
                yield from _lines("+", new[new_first:new_last])


def _split(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def _lines(sign: str, lines: Iterable[str]) -> Iterator[DiffLine]:
    for line in lines:
        yield DiffLine(sign, line.removesuffix("\n"))
        if not line.endswith("\n"):
            yield DiffLine("\\", " no line feed at the end")


def _range(start: int, end: int) -> str:
    """Write a hunk's range: the first line counts from 1, an empty range names the line before it."""
    return f"{start + (end > start)},{end - start}"


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[list[_Opcode]]:
    """Yield the differences with equal lines around them."""
    head = _count_equal(old, new)
    left = min(len(old), len(new)) - head
    tail = min(_count_equal(old[::-1], new[::-1]), left)
    start, end = max(head - _CONTEXT, 0), max(tail - _CONTEXT, 0)
    old_part, new_part = old[start : len(old) - end], new[start : len(new) - end]
    if len(old_part) == len(new_part) == head + tail - start - end:
        return
    if len(old_part) * len(new_part) <= _COMPARED:
        groups: Iterable[list[_Opcode]] = SequenceMatcher(None, old_part, new_part).get_grouped_opcodes(_CONTEXT)
    else:
        groups = [_replacement(len(old_part), len(new_part), head - start, tail - end)]
    for group in groups:
        yield [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in group]


def _replacement(old: int, new: int, head: int, tail: int) -> list[_Opcode]:
    """Return the operations that replace everything between equal lines."""
    return [
        ("equal", 0, head, 0, head),
        ("replace", head, old - tail, head, new - tail),
        ("equal", old - tail, old, new - tail, new),
    ]


def _count_equal(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines are equal from the start on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
