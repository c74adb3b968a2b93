"""The interface between the tag machine and the reader of one body.

Rule: a reader consumes only text of its body, sends only what is certain to the sink, and reports progress in `status`.
"""

import enum
from abc import ABC, abstractmethod

from fcshim.events import StopReason


class BodyStatus(enum.Enum):
    """The result of the last `feed`."""

    READING = enum.auto()
    """All text was consumed, up to a tail that needs more text after it."""
    STARTED = enum.auto()
    """A call was started: the text consumed so far is markup of the call."""
    NOT_A_CALL = enum.auto()
    """The current call is not a call: the text consumed so far is text, and so is its remainder."""
    CALL_ENDED = enum.auto()
    """One call of the body is complete; the next call or the end of the body follows."""
    ENDED = enum.auto()
    """The body has ended; `unread` must be parsed again as text."""
    NO_BODY = enum.auto()
    """No body begins here."""


READING = BodyStatus.READING
"""A module constant, because looking up an enum member costs a large share of the time that a small piece takes."""

NATURAL_STOPS: frozenset[StopReason] = frozenset({"complete", "stop_sequence", "tool_use"})
"""Stop reasons of a reply that ended by itself. After any other, a call without its end marker is truncated."""


class BodyReader(ABC):
    """Reads one body.

    `unread` is text to parse again after the body has ended.
    """

    status = BodyStatus.READING
    unread = ""
    in_content = False
    """True while the next piece may be passed to `send_string_piece`."""

    @abstractmethod
    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` until the status changes, and return the position reached.

        The caller passes the unconsumed tail again, with more text after it.
        """

    @abstractmethod
    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply; `tail` is what the last `feed` did not consume. Sets `status` and `unread`."""

    @abstractmethod
    def refuse(self) -> None:
        """Treat the current call and all later calls of this body as text."""

    @abstractmethod
    def dispose(self) -> None:
        """Break the reference cycle through the bound state method, so that the memory is freed immediately."""

    def active_reader(self) -> "BodyReader":
        """Return the reader that does the work after a call has started: this one, or the one it delegates to."""
        return self

    def send_string_piece(self, _piece: str) -> bool:
        """Send the piece and return True if all of it is content of a string in the arguments; else change nothing."""
        return False


class DelegatingReader(BodyReader):
    """Reads one body with the reader that `_choose` makes, once the text tells which."""

    def __init__(self) -> None:
        self._reader: BodyReader | None = None

    @abstractmethod
    def _choose(self, text: str, pos: int) -> tuple[BodyReader, int] | BodyStatus:
        """Return the reader and the position at which it begins; READING if more text is needed, NO_BODY for none."""

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` until the status changes, and return the position reached."""
        if self._reader is None:
            chosen = self._choose(text, pos)
            if isinstance(chosen, BodyStatus):
                self.status = chosen
                return pos
            self._reader, pos = chosen
        pos = self._reader.feed(text, pos)
        self._copy_state(self._reader)
        return pos

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply; `tail` is what the last `feed` did not consume. Sets `status` and `unread`."""
        self.status = BodyStatus.ENDED
        if self._reader is not None:
            self._reader.close(tail, stop_reason)
            self._copy_state(self._reader)

    def _copy_state(self, reader: BodyReader) -> None:
        self.status, self.unread, self.in_content = reader.status, reader.unread, reader.in_content

    def refuse(self) -> None:
        """Treat the current call and all later calls of this body as text."""
        if self._reader is not None:
            self._reader.refuse()

    def dispose(self) -> None:
        """Break the reference cycle of the delegate, so that the memory is freed immediately."""
        if self._reader is not None:
            self._reader.dispose()

    def active_reader(self) -> BodyReader:
        """Return the chosen reader, once there is one."""
        return self if self._reader is None else self._reader


def disposed_state(_text: str, _pos: int) -> int:
    """Take the place of the bound state method in a reader that was disposed of."""
    raise AssertionError
