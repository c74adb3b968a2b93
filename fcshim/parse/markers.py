"""Find markers in text that comes in pieces.

Rule: one compiled search over new text only; at its end, exactly a tail that is the beginning of a marker is kept back.
Neighbours: the tag machine and the body readers.
"""

import functools
import re
from collections.abc import Iterable

_NO_MATCH = r"(?!)"


class MarkerSet:
    """Several markers, searched at once."""

    def __init__(self, markers: Iterable[str], *, extra_pattern: str = "") -> None:
        """Take the markers; `also` is a further regular expression, tried after them."""
        ordered = sorted(set(markers), key=len, reverse=True)
        found = re.compile(
            "|".join([*map(re.escape, ordered), *([extra_pattern] if extra_pattern else [])]) or _NO_MATCH
        )
        self.search, self.match = found.search, found.match
        self._prefixes = frozenset(marker[:size] for marker in ordered for size in range(1, len(marker)))
        self.max_length = max(map(len, ordered), default=0)
        leads = "".join(sorted({marker[0] for marker in ordered}))
        self._search_first_char = re.compile(f"[{re.escape(leads)}]" if leads else _NO_MATCH).search

    def is_partial(self, text: str, pos: int) -> bool:
        """Say whether all of `text[pos:]` is a proper beginning of a marker, so that more of it must be seen."""
        return len(text) - pos < self.max_length and text[pos:] in self._prefixes

    def partial_start(self, text: str, pos: int) -> int:
        """Give where the longest tail of `text[pos:]` begins that is a proper beginning of a marker, else the end."""
        size = len(text)
        start = max(pos, size - self.max_length + 1)
        while (lead := self._search_first_char(text, start)) is not None:
            start = lead.start()
            if text[start:] in self._prefixes:
                return start
            start += 1
        return size


@functools.lru_cache(maxsize=1024)
def marker_set(markers: tuple[str, ...]) -> MarkerSet:
    """Give the set of these markers, made once."""
    return MarkerSet(markers)
