"""What stands behind a complete body where its closing marker is due: a full stop, a fence, a few words.

Rule: a short remark before the marker is passed over; one that is long, or that another opening marker follows, is text
again, to the byte. A marker that both opens and closes (a fence) closes.
Neighbours: the readers of JSON and of literal notations look for the end of a body with it.
"""

import enum
from abc import abstractmethod

from fcshim.parse.body import BodyReader
from fcshim.parse.closers import Closers
from fcshim.parse.markers import MarkerSet

_LONGEST = 200
"""Characters that are passed over."""


class Behind(enum.Enum):
    """What became of a remark."""

    OPEN = enum.auto()
    CLOSED = enum.auto()
    TEXT = enum.auto()


class Remark:
    """Collects one remark; `closers` end a body, `markers` are all that may stand behind it."""

    __slots__ = ("_closers", "_markers", "_parts", "size")

    def __init__(self, closers: Closers, markers: MarkerSet) -> None:
        self._closers = closers
        self._markers = markers
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

    def read(self, text: str, pos: int) -> tuple[Behind, int]:
        """Take `text[pos:]` up to a marker; give what became of the remark, and where to go on."""
        found = self._markers.search(text, pos, pos + _LONGEST + self._closers.longest)
        end = found.start() if found else self._markers.tail(text, pos)
        self.add(text[pos:end])
        if self.size > _LONGEST:
            return Behind.TEXT, end
        if found is None:
            return Behind.OPEN, end
        return (Behind.CLOSED, found.end()) if found[0] in self._closers.markers else (Behind.TEXT, end)


class RemarkReader(BodyReader):
    """Reads a body behind whose calls a remark may stand."""

    _remark: Remark
    _wait: bool
    """True where more text must be seen."""

    @abstractmethod
    def _end(self) -> None:
        """The body is over, and what it holds counts."""

    def _pass_remark(self, text: str, pos: int) -> int:
        """Look for the closing marker behind something that does not belong there."""
        behind, end = self._remark.read(text, pos)
        if behind is Behind.OPEN:
            self._wait = end < len(text)
            return end
        if behind is Behind.TEXT:
            self.rest = self._remark.text()
        self._end()
        return end
