"""Undo neutralising in a text that comes in pieces.

Rule: only what may still turn out to be a neutralised marker is held back; an opening character never changes, so it
goes out at once.
Neighbours: `neutralise` and `words` say what is undone and which tail may still change.
"""

from collections.abc import Callable
from typing import NamedTuple


class PendingTail(NamedTuple):
    """A tail of a text: where it begins, and how many characters of it are the opening and the underscores behind."""

    start: int
    opening: int
    underscores: int


class UnescapePass:
    """Restores one text: `restore` gives a text restored up to a place, `pending` finds the tail that must wait."""

    __slots__ = ("_buffer", "_emitted", "_pending", "_unescape")

    def __init__(self, unescape: Callable[[str, int], str], pending: Callable[[str], PendingTail | None]) -> None:
        self._unescape = unescape
        self._pending = pending
        self._buffer = ""
        self._emitted = 0  # so many characters of what is held were given out already

    def feed(self, text: str) -> str:
        """Take the next piece; give what is certain."""
        text, said = self._buffer + text, self._emitted
        pending = self._pending(text)
        if pending is None:
            self._buffer, self._emitted = "", 0
            return self._unescape(text, len(text))[said:]
        start, opening, underscores = pending
        # Of many underscores only the last one matters: the others go out, else a long row is scanned again and again.
        extra = max(underscores - 1, 0)
        self._buffer = text[start : start + opening] + text[start + opening + extra :]
        self._emitted = opening
        return (self._unescape(text, start) + text[start : start + opening] + "_" * extra)[said:]

    def close(self) -> str:
        """The text has ended; give what was held back."""
        rest = self._unescape(self._buffer, len(self._buffer))[self._emitted :]
        self._buffer, self._emitted = "", 0
        return rest
