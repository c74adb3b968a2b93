"""Compares two replies by words, or by lines where they have many.

Rule: the work is bounded: a long text is compared in larger parts, and one that is too long for that is shown as
replaced. `difflib` needs up to a product of the numbers of parts.
"""

import difflib
import re
from typing import Literal

Change = tuple[Literal["same", "removed", "added"], str]

_MAX_PARTS = 1_000
"""Parts of each text that are compared: some ten milliseconds, half a second for texts made to be slow."""
_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def text_diff(before: str, after: str) -> list[Change]:
    """Return the parts of two texts in order: what both have, what was removed, what was added."""
    start = _shared(before, after)
    end = _shared(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    changes: list[Change] = [("same", before[:start]), *_compare(old, new), ("same", before[len(before) - end :])]
    return [change for change in changes if change[1]]


def _compare(old: str, new: str) -> list[Change]:
    for pattern in (_WORD, _LINE):
        olds, news = pattern.findall(old[:100_000]), pattern.findall(new[:100_000])
        if max(len(old), len(new)) <= 100_000 and max(len(olds), len(news)) <= _MAX_PARTS:
            return _compare_parts(olds, news)
    return [("removed", old), ("added", new)]


def _compare_parts(olds: list[str], news: list[str]) -> list[Change]:
    changes: list[Change] = []
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(None, olds, news).get_opcodes():
        if tag == "equal":
            changes.append(("same", "".join(olds[start:end])))
        else:
            changes += [("removed", "".join(olds[start:end])), ("added", "".join(news[new_start:new_end]))]
    return changes


def _shared(first: str, second: str) -> int:
    """Return how many characters both begin with, up to the last border of a word."""
    limit = min(len(first), len(second))
    low, high = 0, limit
    while low < high:  # a comparison of slices is much faster than one character after the other
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[:middle] == second[:middle] else (low, middle - 1)
    if low == limit == len(first) == len(second):
        return low
    while low and (first[low - 1].isalnum() or first[low - 1] == "_"):
        low -= 1
    return low
