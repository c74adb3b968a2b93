"""Find markers in text that arrives in pieces.

Rule: one compiled search over new text only; only a tail that is a proper prefix of a marker waits for the next piece.
"""

import functools
import re
from collections.abc import Iterable

_NO_MATCH = r"(?!)"


class MarkerSet:
    """Several markers, compiled into one search."""

    def __init__(self, markers: Iterable[str], *, extra_pattern: str = "") -> None:
        """Compile the markers, longest first; `extra_pattern` is a regular expression that is tried after them."""
        ordered = sorted(set(markers), key=len, reverse=True)
        found = re.compile(
            "|".join([*map(re.escape, ordered), *([extra_pattern] if extra_pattern else [])]) or _NO_MATCH
        )
        self.search, self.match = found.search, found.match
        self._prefixes = frozenset(marker[:size] for marker in ordered for size in range(1, len(marker)))
        self.max_length = max(map(len, ordered), default=0)
        first_chars = "".join(sorted({marker[0] for marker in ordered}))
        self._search_first_char = re.compile(f"[{re.escape(first_chars)}]" if first_chars else _NO_MATCH).search

    def is_partial(self, text: str, pos: int) -> bool:
        """Return whether `text[pos:]` is a proper prefix of a marker, so that more text is needed to tell."""
        return len(text) - pos < self.max_length and text[pos:] in self._prefixes

    def partial_start(self, text: str, pos: int) -> int:
        """Return the start of the longest tail of `text[pos:]` that is a proper marker prefix, else `len(text)`."""
        size = len(text)
        start = max(pos, size - self.max_length + 1)
        while (found := self._search_first_char(text, start)) is not None:
            start = found.start()
            if text[start:] in self._prefixes:
                return start
            start += 1
        return size


@functools.lru_cache(maxsize=1024)
def marker_set(markers: tuple[str, ...]) -> MarkerSet:
    """Compile a set of markers, once."""
    return MarkerSet(markers)
