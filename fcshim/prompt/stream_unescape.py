"""Incremental unescaping: undoes one kind of escapes in a text that arrives in chunks.

Rule: only a tail that may still become an escaped marker is held back. The opening characters of a marker never change,
so they are emitted at once.
"""

from collections.abc import Callable
from typing import NamedTuple


class PendingTail(NamedTuple):
    """A tail of a text: its start, the length of its opening, and the number of underscores after that."""

    start: int
    opening: int
    underscores: int


class UnescapePass:
    """One pass over a text: `unescape` undoes escapes up to a position, `pending` finds the tail to hold back."""

    __slots__ = ("_buffer", "_emitted", "_pending", "_unescape")

    def __init__(self, unescape: Callable[[str, int], str], pending: Callable[[str], PendingTail | None]) -> None:
        self._unescape = unescape
        self._pending = pending
        self._buffer = ""
        self._emitted = 0  # characters of the buffer that were emitted already

    def feed(self, text: str) -> str:
        """Take the next chunk and return the text that cannot change any more."""
        text, emitted = self._buffer + text, self._emitted
        pending = self._pending(text)
        if pending is None:
            self._buffer, self._emitted = "", 0
            return self._unescape(text, len(text))[emitted:]
        start, opening, underscores = pending
        # Unescaping removes one underscore, so all but one are emitted: otherwise a long row of them would be scanned
        # again with every chunk.
        extra = max(underscores - 1, 0)
        self._buffer = text[start : start + opening] + text[start + opening + extra :]
        self._emitted = opening
        return (self._unescape(text, start) + text[start : start + opening] + "_" * extra)[emitted:]

    def close(self) -> str:
        """End the text and return what was held back."""
        rest = self._unescape(self._buffer, len(self._buffer))[self._emitted :]
        self._buffer, self._emitted = "", 0
        return rest
