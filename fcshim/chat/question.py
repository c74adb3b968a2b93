"""What the user reads before a decision: the whole call, its risks, a server's words.

Rule: nobody can agree to what is hidden. Every character is shown or named, each row of other people's text stands
behind a bar, so that none looks like ours; only a long value is folded, with its length, and never the call's subject.
"""

import json
from collections.abc import Iterator

import msgspec
from rich.cells import cell_len

from fcshim.events import JSON
from fcshim.sanitize import visible
from fcshim.tools import PermissionRequest

_BAR = "  │ "
_WARNING = "  ⚠ "
_FOLDED_ROWS = (8, 3)
"""Rows of a long value that are shown at first: of its beginning and of its end."""
_QUOTED_ROWS = (100, 20)
"""The same of a server's words, which cannot be asked for again."""


class CallDescription(msgspec.Struct, frozen=True):
    """The rows that describe a call; `folded`: some values are not shown whole."""

    rows: list[str]
    folded: bool


def describe_call(request: PermissionRequest, width: int, *, whole: bool = False) -> CallDescription:
    """Describe a call for a terminal of `width` columns; with `whole`, nothing is folded."""
    claim = " (its server says that it only reads)" if request.traits.reads_only else ""
    rows = [f"  {visible(request.name)}{claim}"]
    folded = False
    for name, value in request.arguments.items():
        label, *given = _argument_rows(name, value, width)
        shown = given if whole or name == request.traits.subject else _fold(given, value)
        folded |= shown is not given
        rows += [label, *shown]
    if not request.arguments:
        rows.append(f"{_BAR}(no arguments)")
    for warning in request.warnings:
        rows += _warning_rows(warning, width)
    return CallDescription(rows, folded)


def quote(text: str, width: int) -> list[str]:
    """Return other people's text as rows behind a bar; a long one is folded."""
    return _fold([_BAR + row for row in _rows(text, width - len(_BAR))], text, _QUOTED_ROWS)


def _argument_rows(name: str, value: JSON, width: int) -> Iterator[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    label = f"{visible(name)}: "
    if "\n" not in text and cell_len(label + text) <= width - len(_BAR):
        yield f"{_BAR}{label}{visible(text)}" if text else f'{_BAR}{label}""'
        return
    yield f"{_BAR}{visible(name)}:"
    yield from (f"{_BAR}  {row}" for row in _rows(text, width - len(_BAR) - 2))


def _warning_rows(warning: str, width: int) -> Iterator[str]:
    for at, row in enumerate(_wrap(visible(f"it {warning}"), width - len(_WARNING))):
        yield (" " * len(_WARNING) if at else _WARNING) + row


def _rows(text: str, width: int) -> Iterator[str]:
    for line in text.split("\n"):
        yield from _wrap(visible(line), width)


def _wrap(line: str, width: int) -> Iterator[str]:
    """Split a line into rows of at most `width` columns; not a blank is lost, or the row would hide something."""
    start = used = 0
    for at, char in enumerate(line):
        wide = cell_len(char)
        if used + wide > max(width, 2):
            yield line[start:at]
            start, used = at, 0
        used += wide
    yield line[start:]


def _fold(rows: list[str], value: JSON, shown: tuple[int, int] = _FOLDED_ROWS) -> list[str]:
    """Return the first and the last rows of a long value, and how much there is in all."""
    first, last = shown
    if len(rows) <= first + last + 1:
        return rows
    size = f"{len(value)} characters, " if isinstance(value, str) else ""
    hidden = f"{_BAR}  … {len(rows) - first - last} rows folded ({size}{len(rows)} rows in all)"
    return [*rows[:first], hidden, *rows[-last:]]
