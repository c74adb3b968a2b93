"""Renders what the user reads before a decision: the whole call, its risks, a server's message.

Rule: nothing is hidden from a user who must agree. Every character is shown or named. Each row of text from outside
follows a bar, so that it cannot imitate fcshim's own text. Only a long value is folded, with its length, and never the
call's subject.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import TypeAlias

import msgspec
from rich.cells import cell_len

from fcshim.events import JSON
from fcshim.sanitize import visible
from fcshim.tools import PermissionRequest
from fcshim.tools.base import FileChange

_BAR = "  │ "
_WARNING = "  ⚠ "
_FOLDED_ROWS = (8, 3)
"""Rows of a long value that are shown at first: of its beginning and of its end."""
_QUOTED_ROWS = (100, 20)
"""The same for a server's message, which cannot be shown again."""
_DIFF_ROWS = (30, 9)
"""The same for a diff."""
_DIFF_STYLES: Mapping[str, str] = {"-": "red", "+": "green", "@": "cyan", "\\": "dim", " ": ""}
_TAB = "⇥"
_DIFF_CONTEXT = 3
"""Equal lines around each difference."""
_DIFF_COMPARED = 4_000_000
"""Pairs of lines that are compared, a second's work at most: beyond that, all lines are shown as removed and added."""
_Opcode: TypeAlias = tuple[str, int, int, int, int]
"""An opcode as in difflib: a tag, the range of lines in the old text, and in the new one."""


class Row(msgspec.Struct, frozen=True):
    """One row that fits the terminal, in a style of rich."""

    text: str
    style: str = ""


_NO_ARGUMENTS = Row(f"{_BAR}(no arguments)")


class CallDescription(msgspec.Struct, frozen=True):
    """The rows that describe a call; `folded`: some values are not shown whole."""

    rows: list[Row]
    folded: bool


def describe_call(request: PermissionRequest, width: int, *, whole: bool = False) -> CallDescription:
    """Describe a call for a terminal of `width` columns; with `whole`, nothing is folded."""
    note = " (its server says that it only reads)" if request.traits.reads_only else ""
    rows = [Row(f"  {visible(request.name)}{note}")]
    folded = False
    change = request.change
    for name, value in request.arguments.items():
        if change is not None and name in change.arguments:
            continue
        label, *given = (Row(each) for each in _argument_rows(name, value, width))
        shown = given if whole or name == request.traits.subject else _fold(given, value)
        folded |= shown is not given
        rows += [label, *shown]
    if change is not None:
        title, *lines = _change_rows(change, width)
        shown = lines if whole else _fold(lines, None, _DIFF_ROWS)
        folded |= shown is not lines
        rows += [title, *shown]
    if not request.arguments:
        rows.append(_NO_ARGUMENTS)
    for warning in request.warnings:
        for at, row in enumerate(_wrap(visible(f"it {warning}"), width - len(_WARNING))):
            rows.append(Row((" " * len(_WARNING) if at else _WARNING) + row, "yellow"))
    return CallDescription(rows, folded)


def describe_arguments(name: str, arguments: str, width: int) -> list[Row]:
    """Describe a call without folding, for display only; arguments that are not an object are quoted."""
    values = read_object(arguments)
    if values is None:
        return [Row(f"  {visible(name)}"), *(Row(_BAR + row) for row in _rows(arguments, width - len(_BAR)))]
    rows = [Row(row) for each, value in values.items() for row in _argument_rows(each, value, width)]
    return [Row(f"  {visible(name)}"), *(rows or [_NO_ARGUMENTS])]


def read_object(arguments: str) -> dict[str, JSON] | None:
    """Return the arguments of a call; None for those of a call with an error."""
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def quote(text: str, width: int) -> list[Row]:
    """Return text from outside as rows behind a bar; a long one is folded."""
    return _fold([Row(_BAR + row) for row in _rows(text, width - len(_BAR))], text, _QUOTED_ROWS)


def _change_rows(change: FileChange, width: int) -> Iterator[Row]:
    """Return a change of a file as a diff: each removed or added line is shown whole, with an arrow for each tab."""
    lines = list(unified_diff(change.before or "", change.after))
    signs = [line.sign for line in lines]
    added, removed = signs.count("+"), signs.count("-")
    yield Row(f"{_BAR}{f'change: +{added} -{removed} lines' if lines else 'the file stays as it is'}")
    for line in lines:
        # an arrow in the file is named, so that it does not look like a tab
        parts = (visible(part).replace(_TAB, f"<U+{ord(_TAB):04X}>") for part in line.text.split("\t"))
        for at, row in enumerate(_wrap(f"{_TAB}   ".join(parts), width - len(_BAR) - 1)):
            sign = "…" if at else line.sign  # a row that begins with a sign is a line of its own
            yield Row(f"{_BAR}{sign}{row}", _DIFF_STYLES[line.sign])


def _argument_rows(name: str, value: JSON, width: int) -> Iterator[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    label = f"{visible(name)}: "
    if "\n" not in text and cell_len(label + text) <= width - len(_BAR):
        yield f"{_BAR}{label}{visible(text)}" if text else f'{_BAR}{label}""'
        return
    yield f"{_BAR}{visible(name)}:"
    yield from (f"{_BAR}  {row}" for row in _rows(text, width - len(_BAR) - 2))


def _rows(text: str, width: int) -> Iterator[str]:
    for line in text.split("\n"):
        yield from _wrap(visible(line), width)


def _wrap(line: str, width: int) -> Iterator[str]:
    """Split a line into rows of at most `width` columns; no blank is lost, since the row would hide it."""
    start = used = 0
    for at, char in enumerate(line):
        char_width = cell_len(char)
        if used + char_width > max(width, 2):
            yield line[start:at]
            start, used = at, 0
        used += char_width
    yield line[start:]


def _fold(rows: list[Row], value: JSON, shown: tuple[int, int] = _FOLDED_ROWS) -> list[Row]:
    """Return the first and the last rows of a long value, and how much there is in all."""
    first, last = shown
    if len(rows) <= first + last + 1:
        return rows
    size = f"{len(value)} characters, " if isinstance(value, str) else ""
    hidden = f"{_BAR}  … {len(rows) - first - last} rows folded ({size}{len(rows)} rows in all)"
    return [*rows[:first], Row(hidden, "dim"), *rows[-last:]]


class DiffLine(msgspec.Struct, frozen=True):
    """One line: `sign` is `-`, `+`, a blank, `@` for the head of a hunk, or a backslash for a missing line feed."""

    sign: str
    text: str


def unified_diff(before: str, after: str) -> Iterator[DiffLine]:
    """Yield the lines of a diff, without the names of files.

    Every removed or added line is shown, whatever the texts are; only the search for equal lines between the first and
    the last difference is limited. Only a line feed ends a line.
    """
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
    start, end = max(head - _DIFF_CONTEXT, 0), max(tail - _DIFF_CONTEXT, 0)
    old_part, new_part = old[start : len(old) - end], new[start : len(new) - end]
    if len(old_part) == len(new_part) == head + tail - start - end:
        return
    if len(old_part) * len(new_part) <= _DIFF_COMPARED:
        groups: Iterable[list[_Opcode]] = SequenceMatcher(None, old_part, new_part).get_grouped_opcodes(_DIFF_CONTEXT)
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
