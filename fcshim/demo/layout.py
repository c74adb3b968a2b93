"""Layout of plain text for a terminal: headings, two columns, wrapped lines.

Rule: the layout adds only ASCII and line feeds, so that the output is also readable in a pipe.
"""

import shutil
import textwrap
from collections.abc import Iterable
from itertools import zip_longest

_MIN_WIDTH, _MAX_WIDTH = 76, 132


def terminal_width() -> int:
    """Return the columns of the terminal minus one, within limits."""
    return max(_MIN_WIDTH, min(_MAX_WIDTH, shutil.get_terminal_size((100, 24)).columns - 1))


def heading(text: str, width: int) -> str:
    """Return a heading that dashes fill up to the width."""
    return f"--- {text} ".ljust(width, "-")


def side_by_side(left: Iterable[str], right: Iterable[str], width: int) -> str:
    """Return two columns of the same width, with long lines wrapped."""
    column = (width - 3) // 2
    rows = zip_longest(_wrap(left, column), _wrap(right, column), fillvalue="")
    return "\n".join(f"{one:<{column}} | {other}".rstrip() for one, other in rows)


def truncate(text: str, width: int) -> str:
    """Shorten a line that is longer than the width."""
    return text if len(text) <= width else text[: width - 3] + "..."


def _wrap(lines: Iterable[str], width: int) -> list[str]:
    return [part for line in lines for text in line.split("\n") for part in _wrap_line(text, width)]


def _wrap_line(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, drop_whitespace=False, replace_whitespace=False) or [""]
