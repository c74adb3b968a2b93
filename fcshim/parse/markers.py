"""Find markers in text that comes in pieces.

Rule: one compiled search over new text only; at its end, exactly a tail that is the beginning of a marker is kept back.
Neighbours: the tag machine and the body readers.
"""

import re
from collections.abc import Iterable


def partial(text: str, pos: int, marker: str) -> int:
    """Give where the longest tail of `text[pos:]` begins that is a proper beginning of `marker`, else `len(text)`."""
    size = len(text)
    at = text.find(marker[0], max(pos, size - len(marker) + 1))
    while at >= 0:
        if marker.startswith(text[at:]):
            return at
        at = text.find(marker[0], at + 1)
    return size


class MarkerSet:
    """Several markers, searched at once."""

    def __init__(self, markers: Iterable[str], *, also: str = "") -> None:
        """Take the markers; `also` is a further regular expression, tried after them."""
        ordered = sorted(set(markers), key=len, reverse=True)
        self.search = re.compile("|".join([*map(re.escape, ordered), *([also] if also else [])])).search
        self._begun = frozenset(marker[:size] for marker in ordered for size in range(1, len(marker)))
        self._longest = max(map(len, ordered))
        leads = "".join(sorted({marker[0] for marker in ordered}))
        self._lead = re.compile(f"[{re.escape(leads)}]").search

    def tail(self, text: str, pos: int) -> int:
        """Give where the longest tail of `text[pos:]` begins that is a proper beginning of a marker, else the end."""
        size = len(text)
        start = max(pos, size - self._longest + 1)
        while (lead := self._lead(text, start)) is not None:
            start = lead.start()
            if text[start:] in self._begun:
                return start
            start += 1
        return size
