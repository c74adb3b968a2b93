"""Text after a JSON call in its body: the end marker, further calls, trailing text.

Rule: only short trailing text may stand between a complete call and the end marker; without an end marker after it, it
is emitted as text.
"""

import re
from abc import abstractmethod

from fcshim.parse.body import BodyStatus
from fcshim.parse.dialect import Dialect
from fcshim.parse.json.repairing import RepairingJsonReader
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.parse.trailing_text import TrailingText, TrailingTextReader

_SEPARATOR = re.compile(r"[ \t\r\n]{0,32};[ \t\r\n]{0,32}")
_PARTIAL_SEPARATOR = re.compile(r"[ \t\r\n]{0,32}(?:;[ \t\r\n]{0,32})?\Z")


class JsonTrailerReader(RepairingJsonReader, TrailingTextReader):
    """Reads the text after a complete call."""

    def __init__(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> None:
        super().__init__(dialect, start_marker, sink, limits)
        self._base_depth = 1
        self._semicolons = False
        self._trailing_text = TrailingText(self._end_markers, self._call_markers)
        """Text after the last call, including white space."""

    @abstractmethod
    def _begin_next_call(self) -> None:
        """Begin to read the next call of this body."""

    def _skip_space(self, text: str, pos: int) -> int:
        while pos < len(text) and text[pos] in " \t\r\n":
            pos += 1
        return pos

    def _after_end(self, text: str, pos: int) -> int:
        if not self._dialect.closes_bodies:
            return self._read_semicolon(text, pos)
        start, pos = pos, self._skip_space(text, pos)
        if pos > start and not self._discarding:
            self._trailing_text.add(text[start:pos])
        if self._trailing_text.size > self._limits.mend:
            self.unread = self._trailing_text.text()
            self._end_body()
            return pos
        if pos == len(text):
            return pos
        end = self._end_markers.end_of_marker(text, pos)
        if end == pos:
            return self._on_missing_end_marker(text, pos)
        if end is None:
            self._wait = True
            return pos
        self._end_body()
        return end

    def _on_missing_end_marker(self, text: str, pos: int) -> int:
        """Handle text other than the end marker after a call."""
        if self._discarding and self._dialect.fenced:
            self._state = self._skip_to_end_marker
        elif self._discarding:
            self.status = BodyStatus.ENDED
        elif text[pos] == "{" and self._base_depth == 1:
            self._trailing_text.clear()
            self._begin_next_call()
        else:
            self._state = self._read_trailing_text
        return pos

    def _read_semicolon(self, text: str, pos: int) -> int:
        if self._semicolons and not self._discarding:
            found = _SEPARATOR.match(text, pos)
            if found is not None and text.startswith("{", found.end()):
                self._begin_next_call()
                return found.end()
            if _PARTIAL_SEPARATOR.match(text, pos):
                self._wait = True
                return pos
        self._end_body()
        return pos

    def _close_complete(self, tail: str, *, natural: bool) -> None:
        if self._discarding:
            return
        trailing = self._state == self._read_trailing_text
        partial = not trailing and len(tail) > 1 and self._end_markers.is_partial(tail, 0)
        self.unread = (self._trailing_text.text() if trailing else "") + ("" if partial else tail)
        if natural or trailing:
            self._sink.finish()
        else:
            self._sink.fail_truncated("the reply ended before the closing marker")
