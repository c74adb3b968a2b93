"""The interface between the tag machine and the reader of one body, and what readers share.

`BodyProgress` has the status of a body and of its current call, `TrailingText` the text between a complete body and its
end marker: a full stop, a fence, a few words. A call that must not run, and text that turns out not to be a call, is
still read to its end, with `discarding` set: a call that its strings quote must not be found.

Rule: a reader consumes only text of its body, sends only what is certain to the sink, and reports progress in `status`,
one status in each `feed`. Short trailing text before the end marker is dropped; trailing text that is long, or that
another start marker follows, is emitted as text, byte for byte. A marker that both opens and closes (a fence) closes.
"""

import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

from fcshim.events import StopReason
from fcshim.parse.markers import EndMarkers, MarkerSet
from fcshim.parse.sink import CallSink


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
    """Reads one body with the reader that `choose` makes, once the text tells which."""

    def __init__(self, choose: Callable[[str, int], tuple[BodyReader, int] | BodyStatus]) -> None:
        """`choose` returns the reader and its first position; READING if more text is needed, NO_BODY for none."""
        self._choose = choose
        self._reader: BodyReader | None = None

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


class PartialTokenError(Exception):
    """The text ends in what may be a token, which starts at `pos`."""

    def __init__(self, pos: int) -> None:
        super().__init__()
        self.pos = pos


class BodyProgress:
    """The status of a body, which its reader copies after each `feed`, and the state of its current call."""

    __slots__ = ("_sink", "discarding", "end_pending", "final", "started", "status", "wait")

    def __init__(self, sink: CallSink) -> None:
        self.status = READING
        self.wait = False
        """True where the text left can only be read together with more text."""
        self.final = False
        """True when the reply is over, so that no more text follows."""
        self.started = False
        """True once the start of the current call was sent."""
        self.discarding: Literal["", "call", "body"] = ""
        """What is read without sending: nothing, the current call, or that and all later calls of the body."""
        self.end_pending = False
        """True where the next `feed` only reports the end of a call, because this one reports that it is text."""
        self._sink = sink

    def need_more(self, pos: int) -> None:
        """Read on from `pos` when more text is there. Raises `PartialTokenError`, unless the reply is over."""
        if not self.final:
            raise PartialTokenError(pos)

    def begin_call(self) -> None:
        """Begin a call, which is discarded where the whole body is."""
        self.started = False
        self.discarding = "body" if self.discarding == "body" else ""

    def report_start(self) -> None:
        """Report that the start of the call was sent."""
        self.started = True
        if self.status is READING:
            self.status = BodyStatus.STARTED

    def discard(self) -> None:
        """Treat the current call as text: read to its end without sending."""
        self._sink.finish()
        self.discarding = self.discarding or "call"
        if self.status is READING:
            self.status = BodyStatus.NOT_A_CALL

    def end_call(self) -> None:
        """Report the end of the call."""
        self.end_pending = self.status is BodyStatus.NOT_A_CALL
        if not self.end_pending:
            self.status = BodyStatus.CALL_ENDED

    def report_pending_end(self) -> None:
        """Report the end of the call that was pending."""
        self.end_pending = False
        self.status = BodyStatus.CALL_ENDED

    def end_body(self) -> None:
        """End the body and accept its last call."""
        self._sink.finish()
        self.status = BodyStatus.ENDED

    def reject_body(self) -> None:
        """Report that no body begins here, and accept the last call."""
        self._sink.finish()
        self.status = BodyStatus.NO_BODY


_MAX_LENGTH = 200
"""The most characters that are dropped."""
_LINE_WITH_BRACKETS = re.compile(r"\n[ \t]*(?:[-*+\w.]{1,64}[ \t]{0,4})?[{\[(<]")
"""A further line that begins with a bracket, or a name and a bracket: what it holds must not vanish."""
_END_TAG = re.compile(r"</\w{1,32}>")
"""The end of an element around the arguments or the call."""
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

    def beginning(self) -> str:
        """Return as much of the text as is collected however it is cut into chunks."""
        return self.text()[:_MAX_LENGTH]

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
        if found[0] not in self._end_markers.markers:
            return TrailingStatus.TEXT, end
        before_marker = _END_TAG.sub("", self.text())
        if (self._markup_only and before_marker.strip(_MARKUP_CHARS)) or _LINE_WITH_BRACKETS.search(before_marker):
            return TrailingStatus.TEXT, end  # a line in it may be a call
        return TrailingStatus.CLOSED, found.end()
