"""Read the content of one quoted string as it arrives, in a syntax where an end marker inside a string is content.

Theory of operation. From an end marker inside a string on, the content is held as pending. If the string is closed
later, the marker was content. If the reply ends first, or a quote follows that may not be the closing one, the marker
ended the call.

Rule: no text is read twice, except the text after a marker that turned out to end the call.
"""

import json
import re
from collections.abc import Callable
from typing import TypeAlias

from fcshim.parse.limits import Limits
from fcshim.parse.markers import EndMarkers

_NEEDS_NO_ESCAPE = re.compile(r'[^"\\\x00-\x1f]*+').fullmatch
FullMatcher: TypeAlias = Callable[[str], "re.Match[str] | None"]
"""A pattern's `fullmatch`."""


class QuotedStringSyntax:
    """Compiled patterns for one kind of string.

    `fullmatch_json_content` matches content that needs no JSON escape, `fullmatch_content` any content. Neither
    matches text that may start an end marker.
    """

    def __init__(
        self, end_markers: EndMarkers, fullmatch_json_content: FullMatcher, fullmatch_content: FullMatcher
    ) -> None:
        self.end_markers = end_markers if end_markers.max_length else None
        self.fullmatch_json_content, self.fullmatch_content = fullmatch_json_content, fullmatch_content


class QuotedString:
    """Base of the string readers; `closed` says that the closing quote was read, `wait` that more text is needed."""

    # Class attributes are read more slowly than an instance's, so only what few strings read or change is one.
    has_backslash = False
    """True if a backslash was read that is not an escape."""
    _marker = ""
    _pending_size = 0

    _pending_source: list[str]

    def __init__(self, syntax: QuotedStringSyntax, limits: Limits) -> None:
        self.syntax = syntax
        self.closed = self.wait = False
        self.streams = True
        """True while the content is sent as it arrives, that is, no end marker is pending."""
        self.defect = ""
        """Why the string cannot be read; empty while it can."""
        self.doubtful = False
        """True before a quote that may end the string or be content: the end of the body decides."""
        self._end_markers = syntax.end_markers
        self._limits = limits
        self._out: list[str] = []
        self._pending: list[str] | None = None

    def read(self, text: str, pos: int, *, final: bool = False) -> int:
        """Read `text[pos:]` up to the end of the string; `final` says that no more text follows."""
        raise NotImplementedError

    def take(self) -> str:
        """Return the content read since the last call of `take`, JSON-escaped."""
        out = self._out
        if not out:
            return ""
        piece = out[0] if len(out) == 1 else "".join(out)
        out.clear()
        return piece

    def text_after_marker(self) -> str | None:
        """Return the text after a pending end marker; None where no marker is pending."""
        if self._pending is None:
            return None
        return "".join(self._pending_source)[len(self._marker) :]

    def close(self) -> None:
        """Record that the closing quote was read: a pending marker is content."""
        self.closed = True
        self._release_pending()

    def _add_content(self, text: str, start: int, end: int, *, strict: bool = False) -> int:
        """Add `text[start:end]` up to an end marker; return where to continue, which may be before `end`.

        `strict` says that the content needs no JSON escape.
        """
        marker = None
        if self._end_markers is not None and self._pending is None:
            marker = self._end_markers.search(text, start, end)
            if marker is not None:
                end = marker.start()
            elif end == len(text):
                end = self._end_markers.partial_start(text, start)
                self.wait = end < len(text)
        piece = text[start:end]
        self._add_escaped(piece, piece if strict else json_escape(piece))
        return end if marker is None else self._hold_from_marker(marker[0], end)

    def _hold_from_marker(self, marker: str, at: int) -> int:
        self._pending, self._pending_source, self._marker, self.streams = [], [], marker, False
        self._add_decoded(marker)
        return at + len(marker)

    def _add_decoded(self, source: str, content: str | None = None) -> None:
        """Add content that the body writes as `source`."""
        self._add_escaped(source, json_escape(source if content is None else content))

    def _add_escaped(self, source: str, escaped: str) -> None:
        if self._pending is None:
            self._out.append(escaped)
            return
        self._pending.append(escaped)
        self._pending_source.append(source)
        self._pending_size += len(source)
        if self._pending_size > self._limits.search:
            # No quote closed the string for this long, so the marker is content (a file that quotes it, for example).
            self._release_pending()
            self._end_markers = None

    def _release_pending(self) -> None:
        if self._pending is not None:
            self._out.extend(self._pending)
            self._pending, self.streams = None, True


def json_escape(content: str) -> str:
    """Escape content for the inside of a JSON string."""
    return content if _NEEDS_NO_ESCAPE(content) is not None else json.dumps(content, ensure_ascii=False)[1:-1]
