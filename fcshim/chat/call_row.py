"""Renders a call as one row: its arguments as they arrive, and a growing size once they need more room.

Rule: a long call takes one row, before and after its end; `/call` and the question before it show it whole.
"""

import json
import re
from collections.abc import Iterator, Mapping

from rich.cells import cell_len
from rich.text import Text as Styled

from fcshim.chat.question import read_object
from fcshim.events import JSON
from fcshim.sanitize import sanitize_line

_VALUE_SIZE = 40
"""Characters of each long value in the row of a whole call: the other arguments have room beside it."""
_HEAD_SIZE = 1_000
"""Characters of the arguments that are kept while they arrive: more than a row, and usually with the path."""
_PATH_KEYS = ("path", "file_path", "notebook_path")
_PATH = re.compile(rf'"(?:{"|".join(_PATH_KEYS)})"\s*:\s*("(?:[^"\\]|\\.)*")')


class CallRow:
    """The row of a call whose arguments arrive; `add` takes them."""

    def __init__(self, name: str, width: int) -> None:
        self._name = name
        self._width = width
        self._head = ""
        self._size = 0

    def add(self, chunk: str) -> None:
        """Take some more arguments; only their beginning is kept."""
        self._size += len(chunk)
        if len(self._head) < _HEAD_SIZE:
            self._head += chunk

    @property
    def fits(self) -> bool:
        """Whether the arguments so far fit in one row."""
        row = f"● {self._name} {self._head}"
        return self._size < self._width and "\n" not in row and cell_len(sanitize_line(row)) < self._width

    def growing(self) -> Styled:
        """Return the row of the arguments so far: the path once it is known, else the beginning."""
        found = _PATH.search(self._head)
        path = found and read_object(f'{{"path": {found[1]}}}')
        return self._row(path["path"] if path else self._head, f"… {self._size:,} characters")

    def ended(self, arguments: str, hint: str) -> Styled:
        """Return the row of a whole call; `hint` says how to show all of it."""
        return self._row(_summary(arguments), f" {len(arguments):,} characters: {hint}")

    def _row(self, about: str, size: str) -> Styled:
        """Return a row that fits, with the size at its end."""
        row = Styled.assemble(("● ", "cyan"), (sanitize_line(self._name), "bold"), (f" {sanitize_line(about)}", "dim"))
        row.truncate(max(self._width - cell_len(size) - 1, 2), overflow="crop" if size[0] == "…" else "ellipsis")
        return row.append(size, "dim")


def _summary(arguments: str) -> str:
    """Return the path that a whole call names, else its arguments with each long value shortened."""
    values = read_object(arguments)
    if values is None:
        return arguments  # of a call with an error
    paths = (value for name in _PATH_KEYS if isinstance(value := values.get(name), str))
    return next(paths, None) or f"{{{', '.join(_members(values))}}}"


def _members(values: Mapping[str, JSON]) -> Iterator[str]:
    for name, value in values.items():
        text = json.dumps(value, ensure_ascii=False)
        cut = text if len(text) <= _VALUE_SIZE else f"{text[:_VALUE_SIZE]}…"
        yield f"{json.dumps(name, ensure_ascii=False)}: {cut}"
