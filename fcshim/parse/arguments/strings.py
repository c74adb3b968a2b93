r"""Read the content of JSON strings, and send it while it comes.

Theory of operation. Two deviations are mended on the way, since strings must keep streaming: raw control characters and
invalid escapes. A closing marker inside a string pauses forwarding until the string closes: if it never does, the
marker was the end of the call.

Rule: what leaves is valid inside a strict JSON string; half of a surrogate pair becomes U+FFFD.
Neighbours: `strict` reads what is between strings, `holding` keeps what is paused.
"""

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from fcshim.parse.arguments.holding import Holding
from fcshim.parse.closers import MOST_RUNS, Closers
from fcshim.parse.limits import Limits

State: TypeAlias = Callable[[str, int], int]

_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
ESCAPE_BEGUN = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_CONTROL = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_LOST = "\\ufffd"
_HALF = re.compile(r"\\u[dD][89abAB]", re.ASCII)
_OTHER_HALF = re.compile(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_LOW_HALF = re.compile(r"\\u[dD][c-fC-F]")
_OTHER_HALF_BEGUN = re.compile(r"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?\Z")


class JsonStrings(Holding):
    """The states inside a value's string."""

    def __init__(self, closers: Closers, limits: Limits) -> None:
        super().__init__(limits)
        self._closers = closers
        self._run, self._piece = closers.run, closers.piece
        self._wait = False
        self._state: State
        self._containers: list[str]
        self.in_content = False
        """True inside a value's string while nothing is held."""

    @abstractmethod
    def _after(self, text: str, pos: int) -> int:
        """Read on behind a value in a container."""

    @abstractmethod
    def _deviate(self, text: str, pos: int) -> int:
        """Refuse, or take over: the text from here and what is held are not strict JSON."""

    def _string(self, text: str, pos: int) -> int:
        found = self._run.match(text, pos)
        assert found is not None
        end = found.end()
        if end == len(text):
            return self._string_tail(text, pos)
        self._content(text[pos:end])
        if end - pos >= MOST_RUNS:
            return end
        char = text[end]
        if char == '"':
            self._quote_at = len(self._held)
            self.in_content = False
            self._hold('"')
            self._state = self._after if self._containers else self._deviate
            return end + 1
        if char == "\\":
            return self._escape(text, end)
        if char < " ":
            self._content(char, _CONTROL.get(char) or f"\\u{ord(char):04x}")
            return end + 1
        if not self._paused:
            self._paused = True
            self._held_source = []
        self.in_content = False
        closer = self._closers.at(text, end)
        self._content(closer)
        return end + len(closer)

    def _string_tail(self, text: str, pos: int) -> int:
        """Send what is left of the text, but keep back what may become a closing marker."""
        end = self._closers.tail(text, pos)
        self._content(text[pos:end])
        self._wait = end < len(text)
        return end

    def _content(self, source: str, strict: str = "") -> None:
        """Send a piece of a string; `strict` is how it is spelled where that differs from its source."""
        if not source:
            return
        if not self._paused:
            if self._into is not None:
                self._into.append(strict or source)
            return
        assert self._held_source is not None
        self._held_source.append(source)
        self._held.append(strict or source)
        self._held_size += len(source)
        if self._held_size > self._limits.mend:
            # Nothing closed the string for so long: the marker is content, as in a file that is being written.
            in_string, self._in_string = self._in_string, False
            self._stand("string")
            self._in_string = in_string

    def _escape(self, text: str, pos: int) -> int:
        found = _ESCAPE.match(text, pos)
        if found is None:
            if ESCAPE_BEGUN.match(text, pos):
                self._wait = True
                return pos
            quote = text[pos + 1] == "'"
            self._content(text[pos : pos + 2] if quote else "\\", "'" if quote else "\\\\")
            return pos + 2 if quote else pos + 1
        end = found.end()
        if _HALF.match(text, pos):
            return self._surrogate(text, pos, end)
        if _LOW_HALF.match(text, pos):
            self._content(found[0], _LOST)
        else:
            self._content(found[0])
        return end

    def _surrogate(self, text: str, pos: int, end: int) -> int:
        """Forward a pair as it is; half of one becomes U+FFFD."""
        other = _OTHER_HALF.match(text, end)
        if other is not None:
            self._content(text[pos : other.end()])
            return other.end()
        if _OTHER_HALF_BEGUN.match(text, end):
            self._wait = True
            return pos
        self._content(text[pos:end], _LOST)
        return end
