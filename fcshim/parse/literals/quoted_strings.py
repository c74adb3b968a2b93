"""Read the content of one quoted string while it comes, in a format where markers inside strings do not close a call.

Theory of operation. A closing marker inside a string is content if the string is closed later. Until then what comes
is held back; if the reply ends first, or the string looks as if a quote had been forgotten, the marker closed the call.

Rule: nothing is read twice but what stands behind a marker that turned out to close the call.
Neighbours: `python_strings` and `gemma_body` read their strings with it, `body` asks what became of it.
"""

import json
import re
from collections.abc import Callable
from typing import TypeAlias

from fcshim.parse.end_markers import EndMarkers
from fcshim.parse.limits import Limits

_NEEDS_NO_ESCAPE = re.compile(r'[^"\\\x00-\x1f]*+').fullmatch
FullMatcher: TypeAlias = Callable[[str], "re.Match[str] | None"]
"""Matches a text wholly or not at all."""


class QuotedStringSyntax:
    """What strings of one kind have in common; `piece` matches content that JSON spells the same, `plain_piece` any.

    Neither matches anything that may begin a marker.
    """

    def __init__(
        self, end_markers: EndMarkers, fullmatch_json_content: FullMatcher, fullmatch_content: FullMatcher
    ) -> None:
        self.end_markers = end_markers if end_markers.max_length else None
        self.fullmatch_json_content, self.fullmatch_content = fullmatch_json_content, fullmatch_content


class QuotedString:
    """What is common to strings; `closed` says that the end was read, `wait` that more text must be seen."""

    # Strings are many and short: what most of them never change stands here.
    closed = False
    wait = False
    defect = ""
    """Why this is no string that can be read, or empty."""
    repaired = False
    """True where a quote that nobody escaped was taken for content."""
    _marker = ""
    _pending: list[str] | None = None
    _pending_size = 0

    _pending_source: list[str]

    def __init__(self, syntax: QuotedStringSyntax, limits: Limits) -> None:
        self.syntax = syntax
        self._end_markers = syntax.end_markers
        self._limits = limits
        self._out: list[str] = []

    @property
    def streams(self) -> bool:
        """True while its content is sent as it comes."""
        return self._pending is None

    def read(self, text: str, pos: int, *, final: bool = False) -> int:
        """Read `text[pos:]` up to the end of the string; `final` says that nothing comes behind the text."""
        raise NotImplementedError

    def take(self) -> str:
        """Give the content that was read since the last time, as JSON spells it."""
        out = self._out
        if not out:
            return ""
        piece = out[0] if len(out) == 1 else "".join(out)
        out.clear()
        return piece

    def text_after_marker(self) -> str | None:
        """Give what was read behind a closing marker that is not known to be content; None where there was none."""
        if self._pending is None:
            return None
        return "".join(self._pending_source)[len(self._marker) :]

    def close(self) -> None:
        """Note that the closing quote was read."""
        self.closed = True
        self._release_pending()

    def _add_content(self, text: str, start: int, end: int, *, strict: bool = False) -> int:
        """Take content, plain or spelled as in JSON; gives the place to go on, which may be before `end`."""
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
        if self.repaired:
            self.defect = "a string is not closed"
            return at
        self._pending, self._pending_source, self._marker = [], [], marker
        self._add_decoded(marker)
        return at + len(marker)

    def _add_unescaped_quote(self, quote: str) -> None:
        """Take a quote that nobody escaped for content: such a string is not believed to hold a marker."""
        self.repaired = True
        if self._pending is not None:
            self.defect = "a string is not closed"
        else:
            self._add_decoded(quote)

    def _add_decoded(self, source: str, content: str | None = None) -> None:
        """Take content, which is written as `source`."""
        self._add_escaped(source, json_escape(source if content is None else content))

    def _add_escaped(self, source: str, escaped: str) -> None:
        if self._pending is None:
            self._out.append(escaped)
            return
        self._pending.append(escaped)
        self._pending_source.append(source)
        self._pending_size += len(source)
        if self._pending_size > self._limits.mend:
            # Nothing closed the string for so long: the marker is content, as in a file that is being written.
            self._release_pending()
            self._end_markers = None

    def _release_pending(self) -> None:
        if self._pending is not None:
            self._out.extend(self._pending)
            self._pending = None


def json_escape(content: str) -> str:
    """Spell content as it stands inside a JSON string."""
    return content if _NEEDS_NO_ESCAPE(content) is not None else json.dumps(content, ensure_ascii=False)[1:-1]
