"""Pair the start and end markers in text that several bodies hold one after the other.

Rule: each marker is searched once, so that a reply of many restarted calls costs time in proportion to its length.
"""

from bisect import bisect_left

from fcshim.parse.markers import marker_set


class TagPairs:
    """Pairs the start and end markers of one kind in held text, each read once although several bodies may hold it.

    Offsets are the same for all of these bodies: that of the first held character is 0.
    """

    __slots__ = ("_base", "_ends", "_open", "_pair_ends", "_pair_starts", "_scanned", "_starts", "_tags", "_text")

    def __init__(self, tags: tuple[str, ...], ends: tuple[str, ...]) -> None:
        """`tags` are the start and end markers, `ends` the end markers of these."""
        self._tags = marker_set(tags)
        self._ends = ends
        self._text = ""
        """The text that was read last, whose first character has the offset `_base`."""
        self._base = self._scanned = 0
        self._starts: list[int] = []
        """The offsets of the start markers."""
        self._open: list[int] = []
        """The offsets of those that no end marker follows."""
        self._pair_starts: list[int] = []
        self._pair_ends: list[int] = []
        """The offsets of the markers of each pair that lies in no other pair."""

    def offset_of(self, text: str, at: int) -> int | None:
        """Return the offset of `text[at]`, a newline before a start marker; None if it was read in other parts."""
        offset = self._base + at
        if text is not self._text or offset < 0:
            return None
        start = bisect_left(self._starts, offset)
        if offset < self._scanned and self._starts[start : start + 1] != [offset + 1]:
            return None
        if 2 * start > len(self._starts):  # forget what lies before it
            del self._starts[:start]
            del self._open[: bisect_left(self._open, offset)]
            first = bisect_left(self._pair_ends, offset)
            del self._pair_starts[:first], self._pair_ends[:first]
        return offset

    def are_closed(self, text: str, at: int, offset: int) -> bool:
        """Read the markers that came; return whether no end marker closes what began before `text[at]`."""
        base, self._text, self._base = offset - at, text, offset - at
        self._scanned = max(self._scanned, offset)
        while True:
            before = bisect_left(self._pair_starts, offset) - 1
            if before >= 0 and self._pair_ends[before] > offset:
                return False  # a pair begins before the offset and ends after it
            found = self._tags.search(text, self._scanned - base)
            if found is None:
                self._scanned = max(self._scanned, base + len(text) - self._tags.max_length + 1)
                return True
            self._scanned = base + found.end()
            self._add(base + found.start(), is_end=found[0] in self._ends)

    def _add(self, offset: int, *, is_end: bool) -> None:
        if not is_end:
            self._starts.append(offset)
            self._open.append(offset)
            return
        start = self._open.pop() if self._open else -1
        first = bisect_left(self._pair_starts, start)
        self._pair_starts[first:], self._pair_ends[first:] = [start], [offset]
