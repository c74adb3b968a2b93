"""Renders what the user reads before a decision: the whole call, its risks, a server's message.

Rule: nothing is hidden from a user who must agree. Every character is shown or named. Each row of text from outside
follows a bar, so that it cannot imitate fcshim's own text. Only a long value is folded, with its length, and never the
call's subject.
"""

import json
from collections.abc import Iterator, Mapping

import msgspec
from rich.cells import cell_len

from fcshim.chat.diff import unified_diff
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
