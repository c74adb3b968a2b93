"""Text between a complete body and its end marker: a full stop, a fence, a few words.

Rule: short trailing text before the end marker is dropped; trailing text that is long, or that another start marker
follows, is emitted as text, byte for byte. A marker that both opens and closes (a fence) closes.
"""

import enum

from fcshim.parse.markers import EndMarkers, MarkerSet

_MAX_LENGTH = 200
"""The most characters that are dropped."""
_MARKUP_CHARS = " \t\r\n`)]};,"
"""What may follow a call before the end marker where no text may: closers too many, the end of a fence."""


class TrailingStatus(enum.Enum):
    """The state of the trailing text after a piece."""

    OPEN = enum.auto()
    """No marker was found yet."""
    CLOSED = enum.auto()
    """An end marker was found: the trailing text is dropped."""
    TEXT = enum.auto()
    """It is too long, or a start marker follows it: it is text."""


class TrailingText:
    """Collects the trailing text of one body; `call_markers` are the end markers and the start markers of calls.

    With `markup_only`, words are text even if the end marker follows them.
    """

    __slots__ = ("_call_markers", "_end_markers", "_markup_only", "_parts", "size")

    def __init__(self, end_markers: EndMarkers, call_markers: MarkerSet, *, markup_only: bool = False) -> None:
        self._end_markers = end_markers
        self._call_markers = call_markers
        self._markup_only = markup_only
        self._parts: list[str] = []
        self.size = 0

    def add(self, text: str) -> None:
        """Add a piece that contains no marker."""
        self._parts.append(text)
        self.size += len(text)

    def clear(self) -> None:
        """Drop the collected text, because another call began."""
        self._parts.clear()
        self.size = 0

    def text(self) -> str:
        """Return the collected text."""
        return "".join(self._parts)

    def read(self, text: str, pos: int) -> tuple[TrailingStatus, int]:
        """Add `text[pos:]` up to a marker; return the new status and the position at which to continue."""
        found = self._call_markers.search(text, pos, pos + _MAX_LENGTH + self._end_markers.max_length)
        partial = self._call_markers.partial_start(text, pos)
        if found is not None and partial < found.start():
            found = None  # it may be the end of a longer marker that is not complete yet
        end = found.start() if found else partial
        self.add(text[pos:end])
        if self.size > _MAX_LENGTH:
            return TrailingStatus.TEXT, end
        if found is None:
            return TrailingStatus.OPEN, end
        if found[0] not in self._end_markers.markers or (self._markup_only and self.text().strip(_MARKUP_CHARS)):
            return TrailingStatus.TEXT, end
        return TrailingStatus.CLOSED, found.end()
