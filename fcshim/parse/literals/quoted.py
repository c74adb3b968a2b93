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

_PLAIN = re.compile(r'[^"\\\x00-\x1f]*+').fullmatch
Piece: TypeAlias = Callable[[str], "re.Match[str] | None"]
"""Matches a text wholly or not at all."""


class Spelling:
    """What strings of one kind have in common; `piece` matches content that JSON spells the same, `plain_piece` any.

    Neither matches anything that may begin a marker.
    """

    def __init__(self, markers: EndMarkers, piece: Piece, plain_piece: Piece) -> None:
        self.closers = markers if markers.max_length else None
        self.piece, self.plain_piece = piece, plain_piece


class QuotedString:
    """What is common to strings; `closed` says that the end was read, `wait` that more text must be seen."""

    # Strings are many and short: what most of them never change stands here.
    closed = False
    wait = False
    broken = ""
    """Why this is no string that can be read, or empty."""
    mended = False
    """True where a quote that nobody escaped was taken for content."""
    _marker = ""
    _held: list[str] | None = None
    _held_size = 0

    _held_source: list[str]

    def __init__(self, spelling: Spelling, limits: Limits) -> None:
        self.spelling = spelling
        self._closers = spelling.closers
        self._limits = limits
        self._out: list[str] = []

    @property
    def streams(self) -> bool:
        """True while its content is sent as it comes."""
        return self._held is None

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

    def behind_marker(self) -> str | None:
        """Give what was read behind a closing marker that is not known to be content; None where there was none."""
        if self._held is None:
            return None
        return "".join(self._held_source)[len(self._marker) :]

    def close(self) -> None:
        """Note that the closing quote was read."""
        self.closed = True
        self._believe()

    def _content(self, text: str, start: int, end: int, *, strict: bool = False) -> int:
        """Take content, plain or spelled as in JSON; gives the place to go on, which may be before `end`."""
        marker = None
        if self._closers is not None and self._held is None:
            marker = self._closers.search(text, start, end)
            if marker is not None:
                end = marker.start()
            elif end == len(text):
                end = self._closers.partial_start(text, start)
                self.wait = end < len(text)
        piece = text[start:end]
        self._take(piece, piece if strict else spelled(piece))
        return end if marker is None else self._marker_found(marker[0], end)

    def _marker_found(self, marker: str, at: int) -> int:
        if self.mended:
            self.broken = "a string is not closed"
            return at
        self._held, self._held_source, self._marker = [], [], marker
        self._say(marker)
        return at + len(marker)

    def _mend(self, quote: str) -> None:
        """Take a quote that nobody escaped for content: such a string is not believed to hold a marker."""
        self.mended = True
        if self._held is not None:
            self.broken = "a string is not closed"
        else:
            self._say(quote)

    def _say(self, source: str, content: str | None = None) -> None:
        """Take content, which is written as `source`."""
        self._take(source, spelled(source if content is None else content))

    def _take(self, source: str, strict: str) -> None:
        if self._held is None:
            self._out.append(strict)
            return
        self._held.append(strict)
        self._held_source.append(source)
        self._held_size += len(source)
        if self._held_size > self._limits.mend:
            # Nothing closed the string for so long: the marker is content, as in a file that is being written.
            self._believe()
            self._closers = None

    def _believe(self) -> None:
        if self._held is not None:
            self._out.extend(self._held)
            self._held = None


def spelled(content: str) -> str:
    """Spell content as it stands inside a JSON string."""
    return content if _PLAIN(content) is not None else json.dumps(content, ensure_ascii=False)[1:-1]
