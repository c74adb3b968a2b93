"""Find a call that the model broke off and began again: a start marker at the start of a line of an unfinished body.

Theory of operation. From such a marker on the text is held. If the body's own end marker comes, beside one for each
start marker that was held, the body quotes a call: it is read on. At the end of the reply the call was begun again: the
broken call fails, and what was held is read like text.

Rule: at most `Limits.search` characters are held, each of them once; a body that holds more is read on.
"""

import functools
import re
from collections.abc import Mapping
from typing import Protocol

from fcshim.parse.body import READING, BodyStatus
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.parse.tag_pairs import TagPairs

BEGUN_AGAIN = "the call was begun again"
"""The message of the error with which a broken call ends."""
_SMALL = 64
"""Characters of a piece that is searched twice."""
_NO_PAIRS = TagPairs((), ())
"""Until a marker is found: most bodies never have pairs of their own."""
_MAX_RESTARTS = 8
"""Calls that are begun again in one reply: after each, what was held is read anew."""
_MIN_SIZE = 3
"""Shorter markers are characters that content may have."""


class RestartMarkers:
    """The start markers of one dialect's calls and sections, each with the end markers that belong to it."""

    def __init__(self, ends: Mapping[str, tuple[str, ...]]) -> None:
        self.ends = ends = {
            marker.lstrip("\n"): closers for marker, closers in ends.items() if len(marker) >= _MIN_SIZE
        }
        markers = sorted(self.ends, key=len, reverse=True)
        whole: list[str] = []
        for marker in markers:  # unless the text ends within a longer one that begins with it
            rests = [other[len(marker) :] for other in markers if other != marker and other.startswith(marker)]
            whole.append(re.escape(marker) + "".join(rf"(?!(?:{_pattern_of_prefix(rest)})\Z)" for rest in rests))
        partial = "|".join(map(_pattern_of_prefix, markers))
        self.search = re.compile(rf"\n(?:({'|'.join(whole)})|(?:{partial})\Z)" if markers else r"(?!)").search

    def tags_beside(self, marker: str) -> tuple[str, ...]:
        """Return the start markers that have the same end markers as this one, and these end markers."""
        ends = self.ends[marker]
        return (*(other for other in self.ends if self.ends[other] == ends), *ends)


class RestartableReader(Protocol):
    """A body reader whose `feed` passes text with newlines to `RestartWatch.feed`."""

    status: BodyStatus

    def feed(self, text: str, pos: int, /) -> int:
        """Read `text[pos:]` until the status changes, and return the position reached."""

    def is_unfinished(self, unread: str, /) -> bool:
        """Return whether a call is unfinished, after which the text `unread` waits."""

    def begins_after(self, marker: str, text: str, pos: int, /) -> bool | None:
        """Return whether a call begins with this start marker, which ends at `pos`; None if more text is needed."""


class RestartWatch:
    """Holds the text of one body from a restart on; offsets are relative to the text that the body has not read."""

    __slots__ = (
        "_found",
        "_is_confirmed",
        "_limit",
        "_marker",
        "_markers",
        "_offset",
        "_pairs",
        "_search",
        "_searched",
        "_sink",
        "_skip",
        "_start",
        "_text",
        "reading",
    )

    def __init__(self, markers: RestartMarkers, sink: CallSink, limits: Limits) -> None:
        self.reading = False
        """True while the body reads up to a restart."""
        self._markers = markers
        self._search = markers.search
        self._sink = sink
        self._limit = limits.search
        self._skip = 0
        """Characters in which no restart is looked for."""
        self._text = ""
        """The text that was searched last, and what was found in it."""
        self._found: re.Match[str] | None = None
        self._searched = 0
        """The position from which on that text was searched."""
        self._start = -1
        """The newline before the start marker from which on the text is held, or -1."""
        self._marker = ""
        self._pairs = _NO_PAIRS
        """The tags of the held text, which begins at the offset `_offset` of them."""
        self._offset = 0
        self._is_confirmed = False
        """True once a call begins with the start marker."""

    @property
    def holds(self) -> bool:
        """True while text is held."""
        return self._start >= 0

    def concerns(self, text: str, pos: int) -> bool:
        """Return whether text with newlines may have a restart: the fast path for small pieces."""
        if self.reading or not self._markers.ends:
            return False
        return self._start >= 0 or self._skip > 0 or len(text) > _SMALL or self._search(text, pos) is not None

    def feed(self, body: RestartableReader, text: str, pos: int) -> int:
        """Let the body read text with newlines, up to a restart; return the position reached."""
        self.reading, body.status = True, READING
        try:
            return self._feed(body, text, pos)
        finally:
            self.reading = False

    def _feed(self, body: RestartableReader, text: str, pos: int) -> int:
        if self.holds and self._hold_on(body, text, pos):
            return pos
        while (start := self._find(text, pos)) >= 0:
            pos = self._advance(pos, pos + body.feed(text[pos:start], 0))
            if body.status is not READING:
                return pos
            if not body.is_unfinished(text[pos:start]):
                self._skip = start + 1 - pos
            elif not self._begin(text, pos, start) or self._hold_on(body, text, pos):
                return pos
        return self._advance(pos, body.feed(text, pos))

    def _find(self, text: str, pos: int) -> int:
        """Return the position of the newline before a start marker, or a part of one, else -1."""
        start, found = pos + self._skip, self._found
        if text is not self._text or start < self._searched or (found is not None and found.start() < start):
            found = self._found = self._search(text, start)
            self._text, self._searched = text, start
        self._marker = found[1] or "" if found else ""
        return found.start() if found else -1

    def _advance(self, start: int, end: int) -> int:
        """Record that the body has read from `start` to `end`; return `end`."""
        self._skip = max(0, self._skip - (end - start))
        return end

    def _begin(self, text: str, pos: int, start: int) -> bool:
        """Hold the text from the marker at `start` on, with what is unread; return False for a part of a marker."""
        if self._marker:
            self._start, self._is_confirmed = start - pos, False
            self._take_pairs(text, start)
        return bool(self._marker)

    def _take_pairs(self, text: str, start: int) -> None:
        """Take the pairs of tags that a body before this one has read in the text, or begin to pair them."""
        tags, known = self._markers.tags_beside(self._marker), self._sink.tag_pairs
        pairs = known.get(tags)
        offset = None if pairs is None else pairs.offset_of(text, start)
        if pairs is None or offset is None:
            pairs, offset = TagPairs(tags, self._markers.ends[self._marker]), 0
            known[tags] = pairs
        self._pairs, self._offset = pairs, offset

    def _hold_on(self, body: RestartableReader, text: str, pos: int) -> bool:
        """Look at the text that came; return whether it is still held. What is released is skipped by `_find`."""
        if not self._is_confirmed:
            begun = body.begins_after(self._marker, text, pos + self._start + 1 + len(self._marker))
            if begun is False:
                self._skip, self._start = self._start + 1, -1
                return False
            self._is_confirmed = bool(begun)
        start = pos + self._start
        if self._pairs.are_closed(text, start, self._offset) and len(text) - start <= self._limit:
            return True
        self._skip, self._start = len(text) - pos, -1
        return False

    def unread(self, tail: str, *, keep_newline: bool) -> str:
        """End the watch: return the text from the restart on where the reply ends with `tail`, else an empty string."""
        self.reading = True
        if not (self.holds and self._is_confirmed and self._sink.restarts < _MAX_RESTARTS):
            return ""
        self._sink.begin_again()
        return tail[self._start + (not keep_newline) :]


def _pattern_of_prefix(marker: str) -> str:
    """Return a pattern for every proper prefix of the marker."""
    return "".join(f"(?:{re.escape(char)}" for char in marker[:-1]) + ")?" * (len(marker) - 1)


@functools.lru_cache(maxsize=256)
def restart_markers(
    dialect: Dialect, call_head: str = "", call_close: str = "", *, outer_only: bool = False
) -> RestartMarkers:
    """Return the restart markers of a dialect; a start marker that is a call's tag ends with `call_close`.

    With `outer_only` further spellings of the start marker that are a call's tag are none.
    """
    if dialect.fenced:
        return RestartMarkers({})
    closers = tuple(filter(None, (dialect.call.close, *dialect.call.closes)))
    ends = dict.fromkeys(dialect.openers(), closers)
    if outer_only:
        ends = {marker: closers for marker in ends if marker == dialect.call.open or not marker.startswith(call_head)}
    elif call_head:
        heads = [marker for marker in ends if marker.startswith(call_head)]
        ends = {marker: closers for marker in ends if marker not in heads} | dict.fromkeys(heads, (call_close,))
    return RestartMarkers(ends | dict.fromkeys(dialect.section.openers(), dialect.section.closers()))
