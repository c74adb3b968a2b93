"""The reader of one call's body, as the tag machine sees it.

Rule: a reader consumes what is its own, sends what it is sure of to the sink, and says in `status` what it found.
Neighbours: `json`, `tagged` and `literals` have the readers, `machine.calls` feeds them.
"""

import enum
from abc import ABC, abstractmethod

from fcshim.events import StopReason


class BodyStatus(enum.Enum):
    """What the last `feed` found."""

    READING = enum.auto()
    STARTED = enum.auto()
    """A call was started: what was read so far is not text."""
    NOT_A_CALL = enum.auto()
    """This call is none: what was read so far is text, and so is the rest of it."""
    CALL_ENDED = enum.auto()
    """One call of the body is complete; what follows belongs to the next or to the end."""
    ENDED = enum.auto()
    """The body is over; `rest` is to be read again as text."""
    NO_BODY = enum.auto()
    """There is no body here at all."""


READING = BodyStatus.READING
"""The usual one: looked up once, since that takes as long as much of what a reader does with a small piece."""


class BodyReader(ABC):
    """Reads one body; `calls` counts those that were started, `rest` is text to be read again once it has ended."""

    status: BodyStatus
    unread: str
    call_count: int
    in_content = False
    """True while the next piece may be given to `string_piece`."""

    @abstractmethod
    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` up to the next status; what is not consumed must come again, with more behind it."""

    @abstractmethod
    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply here; `tail` is what the last `feed` left. Sets `status` (UNKNOWN or ENDED), and `rest`."""

    @abstractmethod
    def refuse(self) -> None:
        """Take the call that is being read for text, and all that follow it in this body: none of them counts."""

    @abstractmethod
    def dispose(self) -> None:
        """Break the reference to itself, so that a body's memory is free at once."""

    def active_reader(self) -> "BodyReader":
        """Give the reader that does the work, once the call has started: this one, or one that it has chosen."""
        return self

    def send_string_piece(self, _piece: str) -> bool:
        """Send the piece at once if it lies wholly inside a string of the arguments; else do nothing."""
        return False
