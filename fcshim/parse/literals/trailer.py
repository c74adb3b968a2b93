"""Collect the text after a call of a literal body, until another call or the end marker follows.

Rule: brackets and commas belong to the body; only the text after the last one of them is trailing text.
"""

import re

from fcshim.parse.body import TrailingStatus, TrailingText
from fcshim.parse.dialect import Dialect, compiled_call_markers
from fcshim.parse.markers import EndMarkers

_STRING_END = re.compile(r"[\"'](?=\s*[,)\]}:])")


class LiteralTrailer:
    """Collects the trailing text of one body."""

    __slots__ = ("_trailing_text", "collecting", "start")

    def __init__(self, dialect: Dialect, end_markers: EndMarkers) -> None:
        self._trailing_text = TrailingText(end_markers, compiled_call_markers(dialect), markup_only=dialect.calls_only)
        self.collecting = False
        """True while the text that is read may be trailing text."""
        self.start = 0
        """Start of the trailing text in the current piece that was not collected yet."""

    @property
    def text(self) -> str:
        """The collected text."""
        return self._trailing_text.text()

    def begin(self, pos: int) -> None:
        """Begin to collect after a call, at `pos`."""
        self.collecting = True
        self.skip_to(pos)

    def skip_to(self, pos: int) -> int:
        """Return `pos` after a bracket or comma that belongs to the body: the text before it is not trailing text."""
        self._trailing_text.clear()
        self.start = pos
        return pos

    def collect(self, text: str, pos: int) -> None:
        """Collect the current piece up to `pos`."""
        if self.collecting:
            self._trailing_text.add(text[self.start : pos])
            self.start = pos

    def read(self, text: str, pos: int) -> tuple[TrailingStatus, int]:
        """Look for an end marker from `pos` on; return the new status and the position at which to continue."""
        self.collect(text, pos)
        status, self.start = self._trailing_text.read(text, pos)
        return status, self.start


def end_after_last_string(text: str, closers: str) -> int:
    """Return the end of the brackets that `closers` close, after the last quote that may end a string, or -1.

    Before that quote a call may be content of a string, which must not run.
    """
    ends = [quote.end() for quote in _STRING_END.finditer(text)]
    found = re.compile(r"\s*".join(map(re.escape, closers))).search(text, ends[-1]) if ends else None
    return found.end() if found else -1
