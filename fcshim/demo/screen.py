"""Plain text for a terminal: headings, two columns side by side, wrapped lines.

Rule: ASCII and line feeds only, so that it reads the same in a pipe.
Neighbours: `run` fills it.
"""

import shutil
import textwrap
from collections.abc import Iterable
from itertools import zip_longest

_NARROWEST, _WIDEST = 76, 132


def width() -> int:
    """Give the width to write for."""
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((100, 24)).columns - 1))


def heading(text: str, across: int) -> str:
    """Write a heading with a rule through the line."""
    return f"--- {text} ".ljust(across, "-")


def side_by_side(left: Iterable[str], right: Iterable[str], across: int) -> str:
    """Write two columns of the same width; lines that are too long go on in the next one."""
    column = (across - 3) // 2
    rows = zip_longest(_wrap(left, column), _wrap(right, column), fillvalue="")
    return "\n".join(f"{one:<{column}} | {other}".rstrip() for one, other in rows)


def clipped(text: str, across: int) -> str:
    """Cut a line that is too long."""
    return text if len(text) <= across else text[: across - 3] + "..."


def _wrap(lines: Iterable[str], column: int) -> list[str]:
    return [part for line in lines for text in line.split("\n") for part in _wrap_line(text, column)]


def _wrap_line(text: str, column: int) -> list[str]:
    return textwrap.wrap(text, column, drop_whitespace=False, replace_whitespace=False) or [""]
