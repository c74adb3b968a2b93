"""What stands behind a complete body where its closing marker is due: a full stop, a fence, a few words.

Rule: a short remark before the marker is passed over; one that is long, or that another opening marker follows, is text
again, to the byte. A marker that both opens and closes (a fence) closes.
Neighbours: the readers of JSON and of literal notations look for the end of a body with it.
"""

import enum
from abc import abstractmethod

from fcshim.parse.body import BodyReader
from fcshim.parse.end_markers import EndMarkers
from fcshim.parse.markers import MarkerSet

_MAX_LENGTH = 200
"""Characters that are passed over."""


class TrailingStatus(enum.Enum):
    """What became of a remark."""

    OPEN = enum.auto()
    CLOSED = enum.auto()
    TEXT = enum.auto()


class TrailingText:
    """Collects one remark; `closers` end a body, `markers` are all that may stand behind it."""

    __slots__ = ("_call_markers", "_end_markers", "_parts", "size")

    def __init__(self, end_markers: EndMarkers, call_markers: MarkerSet) -> None:
        self._end_markers = end_markers
        self._call_markers = call_markers
        self._parts: list[str] = []
        self.size = 0

    def add(self, text: str) -> None:
        """Take the next piece, which holds no marker."""
        self._parts.append(text)
        self.size += len(text)

    def clear(self) -> None:
        """Forget what was taken: another call began."""
        self._parts.clear()
        self.size = 0

    def text(self) -> str:
        """Give all that was taken."""
        return "".join(self._parts)

    def read(self, text: str, pos: int) -> tuple[TrailingStatus, int]:
        """Take `text[pos:]` up to a marker; give what became of the remark, and where to go on."""
        found = self._call_markers.search(text, pos, pos + _MAX_LENGTH + self._end_markers.max_length)
        end = found.start() if found else self._call_markers.partial_start(text, pos)
        self.add(text[pos:end])
        if self.size > _MAX_LENGTH:
            return TrailingStatus.TEXT, end
        if found is None:
            return TrailingStatus.OPEN, end
        return (
            (TrailingStatus.CLOSED, found.end())
            if found[0] in self._end_markers.markers
            else (TrailingStatus.TEXT, end)
        )


class TrailingTextReader(BodyReader):
    """Reads a body behind whose calls a remark may stand."""

    _trailing_text: TrailingText
    _wait: bool
    """True where more text must be seen."""

    @abstractmethod
    def _end_body(self) -> None:
        """The body is over, and what it holds counts."""

    def _read_trailing_text(self, text: str, pos: int) -> int:
        """Look for the closing marker behind something that does not belong there."""
        behind, end = self._trailing_text.read(text, pos)
        if behind is TrailingStatus.OPEN:
            self._wait = end < len(text)
            return end
        if behind is TrailingStatus.TEXT:
            self.unread = self._trailing_text.text()
        self._end_body()
        return end
