r"""Read the content of JSON strings, and send it while it arrives.

Theory of operation. Two deviations are fixed in place, so that strings keep streaming: raw control characters and
invalid escapes. An end marker inside a string pauses forwarding until the string closes: if it never closes, the marker
was the end of the call.

Rule: what is sent is valid inside a strict JSON string; a lone surrogate becomes U+FFFD.
"""

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from fcshim.parse.arguments.buffering import CommitBuffer
from fcshim.parse.end_markers import MAX_RUNS, EndMarkers
from fcshim.parse.limits import Limits

State: TypeAlias = Callable[[str, int], int]

_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
PARTIAL_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_CONTROL_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_REPLACEMENT = "\\ufffd"
_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB]", re.ASCII)
_LOW_SURROGATE = re.compile(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_LOW_SURROGATE_START = re.compile(r"\\u[dD][c-fC-F]")
_PARTIAL_LOW_SURROGATE = re.compile(r"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?\Z")


class JsonStringReader(CommitBuffer):
    """The states inside a string value."""

    def __init__(self, end_markers: EndMarkers, limits: Limits) -> None:
        super().__init__(limits)
        self._end_markers = end_markers
        self._string_run, self._plain_run = end_markers.string_run, end_markers.plain_run
        self._wait = False
        self._state: State
        self._containers: list[str]
        self.in_content = False
        """True inside a string value while nothing is buffered."""

    @abstractmethod
    def _after_value(self, text: str, pos: int) -> int:
        """Read after a value in a container."""

    @abstractmethod
    def _on_deviation(self, text: str, pos: int) -> int:
        """Raise, or hand over to the tolerant grammar: the text from `pos` on and the buffer are not strict JSON."""

    def _read_string(self, text: str, pos: int) -> int:
        found = self._string_run.match(text, pos)
        assert found is not None
        end = found.end()
        if end == len(text):
            return self._read_string_tail(text, pos)
        self._add_content(text[pos:end])
        if end - pos >= MAX_RUNS:
            return end
        char = text[end]
        if char == '"':
            self._quote_at = len(self._buffer)
            self.in_content = False
            self._buffer_text('"')
            self._state = self._after_value if self._containers else self._on_deviation
            return end + 1
        if char == "\\":
            return self._read_escape(text, end)
        if char < " ":
            self._add_content(char, _CONTROL_ESCAPES.get(char) or f"\\u{ord(char):04x}")
            return end + 1
        if not self._paused:
            self._paused = True
            self._buffer_source = []
        self.in_content = False
        end_marker = self._end_markers.marker_at(text, end)
        self._add_content(end_marker)
        return end + len(end_marker)

    def _read_string_tail(self, text: str, pos: int) -> int:
        """Send the remaining text, except a tail that may become an end marker."""
        end = self._end_markers.partial_start(text, pos)
        self._add_content(text[pos:end])
        self._wait = end < len(text)
        return end

    def _add_content(self, source: str, strict: str = "") -> None:
        """Send a piece of a string; `strict` is its JSON spelling if that differs from its source."""
        if not source:
            return
        if not self._paused:
            if self._target is not None:
                self._target.append(strict or source)
            return
        assert self._buffer_source is not None
        self._buffer_source.append(source)
        self._buffer.append(strict or source)
        self._buffer_size += len(source)
        if self._buffer_size > self._limits.mend:
            # The string did not close within the limit: the marker is content, for example of a file being written.
            in_string, self._in_string = self._in_string, False
            self._commit("string")
            self._in_string = in_string

    def _read_escape(self, text: str, pos: int) -> int:
        found = _ESCAPE.match(text, pos)
        if found is None:
            if PARTIAL_ESCAPE.match(text, pos):
                self._wait = True
                return pos
            # `\'` is an escape of other languages: the backslash is dropped. Before another character it is content.
            quote = text[pos + 1] == "'"
            self._add_content(text[pos : pos + 2] if quote else "\\", "'" if quote else "\\\\")
            return pos + 2 if quote else pos + 1
        end = found.end()
        if _HIGH_SURROGATE.match(text, pos):
            return self._read_surrogate(text, pos, end)
        if _LOW_SURROGATE_START.match(text, pos):
            self._add_content(found[0], _REPLACEMENT)
        else:
            self._add_content(found[0])
        return end

    def _read_surrogate(self, text: str, pos: int, end: int) -> int:
        """Forward an escaped surrogate pair unchanged; a lone high surrogate becomes U+FFFD."""
        low = _LOW_SURROGATE.match(text, end)
        if low is not None:
            self._add_content(text[pos : low.end()])
            return low.end()
        if _PARTIAL_LOW_SURROGATE.match(text, end):
            self._wait = True
            return pos
        self._add_content(text[pos:end], _REPLACEMENT)
        return end
