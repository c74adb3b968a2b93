"""Plain text for a terminal: headings, two columns side by side, wrapped lines.

Rule: ASCII and line feeds only, so that it reads the same in a pipe.
Neighbours: `run` fills it.
"""

import shutil
import textwrap
from collections.abc import Iterable
from itertools import zip_longest

_MIN_WIDTH, _MAX_WIDTH = 76, 132


def terminal_width() -> int:
    """Give the width to write for."""
    return max(_MIN_WIDTH, min(_MAX_WIDTH, shutil.get_terminal_size((100, 24)).columns - 1))


def heading(text: str, width: int) -> str:
    """Write a heading with a rule through the line."""
    return f"--- {text} ".ljust(width, "-")


def side_by_side(left: Iterable[str], right: Iterable[str], width: int) -> str:
    """Write two columns of the same width; lines that are too long go on in the next one."""
    column = (width - 3) // 2
    rows = zip_longest(_wrap(left, column), _wrap(right, column), fillvalue="")
    return "\n".join(f"{one:<{column}} | {other}".rstrip() for one, other in rows)


def truncate(text: str, width: int) -> str:
    """Cut a line that is too long."""
    return text if len(text) <= width else text[: width - 3] + "..."


def _wrap(lines: Iterable[str], width: int) -> list[str]:
    return [part for line in lines for text in line.split("\n") for part in _wrap_line(text, width)]


def _wrap_line(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, drop_whitespace=False, replace_whitespace=False) or [""]
