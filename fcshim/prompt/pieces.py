"""Undo neutralising in a text that comes in pieces.

Rule: only what may still turn out to be a neutralised marker is held back; an opening character never changes, so it
goes out at once.
Neighbours: `neutralise` and `words` say what is undone and which tail may still change.
"""

from collections.abc import Callable
from typing import NamedTuple


class Pending(NamedTuple):
    """A tail of a text: where it begins, and how many characters of it are the opening and the underscores behind."""

    start: int
    opening: int
    underscores: int


class Pieces:
    """Restores one text: `restore` gives a text restored up to a place, `pending` finds the tail that must wait."""

    __slots__ = ("_held", "_pending", "_restore", "_said")

    def __init__(self, restore: Callable[[str, int], str], pending: Callable[[str], Pending | None]) -> None:
        self._restore = restore
        self._pending = pending
        self._held = ""
        self._said = 0  # so many characters of what is held were given out already

    def feed(self, text: str) -> str:
        """Take the next piece; give what is certain."""
        text, said = self._held + text, self._said
        pending = self._pending(text)
        if pending is None:
            self._held, self._said = "", 0
            return self._restore(text, len(text))[said:]
        start, opening, underscores = pending
        # Of many underscores only the last one matters: the others go out, else a long row is scanned again and again.
        extra = max(underscores - 1, 0)
        self._held = text[start : start + opening] + text[start + opening + extra :]
        self._said = opening
        return (self._restore(text, start) + text[start : start + opening] + "_" * extra)[said:]

    def close(self) -> str:
        """The text has ended; give what was held back."""
        rest = self._restore(self._held, len(self._held))[self._said :]
        self._held, self._said = "", 0
        return rest
