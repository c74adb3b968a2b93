"""Text after a JSON call in its body: the end marker, further calls, trailing text.

Rule: only short trailing text may stand between a complete call and the end marker; without an end marker after it, it
is emitted as text.
"""

import re

from fcshim.parse.dialect import Dialect
from fcshim.parse.json.prefix import skip_space
from fcshim.parse.limits import Limits
from fcshim.parse.markers import EndMarkers
from fcshim.parse.trailing_text import TrailingStatus, TrailingText

_SEPARATOR = re.compile(r"[ \t\r\n]{0,32};[ \t\r\n]{0,32}")
_STRING_END = re.compile(r"[\"'][\s\S]*[}\])]")
_PARTIAL_SEPARATOR = re.compile(r"[ \t\r\n]{0,32}(?:;[ \t\r\n]{0,32})?\Z")


class JsonTrailer:
    """Reads the text after a complete call, up to the next call or the end of the body."""

    def __init__(
        self, dialect: Dialect, end_markers: EndMarkers, limits: Limits, *, calls_follow: bool, semicolons: bool
    ) -> None:
        """Read after a call; another may follow after white space (`calls_follow`) or a semicolon (`semicolons`)."""
        self.wait = False
        self.ended = False
        """True at the end of the body."""
        self.next_call = False
        """True before the next call."""
        self.in_text = False
        """True in text that does not belong to the body."""
        self.unread = ""
        self._has_end_marker = dialect.closes_bodies
        self._end_markers = end_markers
        self._limits = limits
        self._calls_follow = calls_follow
        self._semicolons = semicolons
        self._trailing_text = TrailingText(end_markers, dialect.body_markers(), markup_only=dialect.calls_only)
        """Text after the call, including white space."""

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]`, and return the position reached."""
        self.wait = False
        if self.in_text:
            return self._read_trailing_text(text, pos)
        return self._read_end(text, pos) if self._has_end_marker else self._read_semicolon(text, pos)

    def _read_end(self, text: str, pos: int) -> int:
        start, pos = pos, skip_space(text, pos)
        self._trailing_text.add(text[start:pos])
        if self._trailing_text.size > self._limits.mend:
            self._end_as_text()
        elif pos < len(text):
            end = self._end_markers.end_of_marker(text, pos)
            self.wait = end is None
            self.ended = end is not None and end > pos
            self.next_call = end == pos and text[pos] == "{" and self._calls_follow
            self.in_text = end == pos and not self.next_call
            return end or pos
        return pos

    def _read_semicolon(self, text: str, pos: int) -> int:
        found = _SEPARATOR.match(text, pos) if self._semicolons else None
        if found is not None and text.startswith("{", found.end()):
            self.next_call = True
            return found.end()
        self.wait = self._semicolons and _PARTIAL_SEPARATOR.match(text, pos) is not None
        self.ended = not self.wait
        return pos

    def _read_trailing_text(self, text: str, pos: int) -> int:
        """Search the end marker after text that does not belong to the body."""
        status, end = self._trailing_text.read(text, pos)
        if status is TrailingStatus.OPEN:
            self.wait = end < len(text)
        elif status is TrailingStatus.TEXT:
            self._end_as_text()
        else:
            self.ended = True
        return end

    def may_end_string(self) -> bool:
        """Say whether the call's last string may end only in the trailing text: `"')"}}'"}}`."""
        return self.in_text and _STRING_END.search(self._trailing_text.text()) is not None

    def _end_as_text(self) -> None:
        self.unread = self._trailing_text.text()
        self.ended = True

    def close(self, tail: str) -> None:
        """End the reply: set `unread`."""
        if self.in_text:
            self.unread = self._trailing_text.text() + tail
        elif len(tail) < 2 or not self._end_markers.is_partial(tail, 0):
            self.unread = tail
