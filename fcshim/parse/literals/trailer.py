"""What may stand behind the calls of a literal notation: the closing marker, a remark; and the end of the reply.

Rule: once a body is complete only a short remark may delay its end; without a marker behind it, it is text again.
Neighbours: `calls` reads the calls, `remark` what does not belong there; `stream` acts on `status`.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from fcshim.events import CallErrorKind, StopReason
from fcshim.parse.body import BodyStatus
from fcshim.parse.dialect import Dialect
from fcshim.parse.end_markers import compile_end_markers
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.parse.trailing_text import TrailingText, TrailingTextReader

State: TypeAlias = Callable[[str, int], int]

_NATURAL_STOPS: frozenset[StopReason] = frozenset({"complete", "stop_sequence", "tool_use"})


class LiteralTrailer(TrailingTextReader):
    """Ends a body; a subclass reads the calls in it."""

    _is_text: bool
    """True in a call that is text, and was given as such."""

    def __init__(self, dialect: Dialect, sink: CallSink, limits: Limits) -> None:
        self.status = BodyStatus.READING
        self.unread = ""
        self.call_count = 0
        self.in_content = False
        self._dialect = dialect
        self._sink = sink
        self._limits = limits
        self._end_markers = compile_end_markers(dialect.closers())
        self._markers = dialect.body_markers()
        self._state: State = self._before_first_call
        self._wait = False
        self._final = False
        """True when the reply is over: nothing comes behind the text."""
        self._was_truncated = False
        """True when it did not end by itself."""
        self._trailing_text = TrailingText(self._end_markers, self._markers)
        """What was read behind the last call, while no other has begun."""
        self._trailing_start: int | None = None
        """Where in this piece of text what is not yet in the remark begins; None where no remark can."""

    @abstractmethod
    def _before_first_call(self, text: str, pos: int) -> int:
        """Read what stands before the first call."""

    @abstractmethod
    def _abandon_call(self, kind: CallErrorKind, message: str) -> None:
        """This call must not run: end it with an error if it was meant, else it is text."""

    @abstractmethod
    def _skip_space(self, text: str, pos: int) -> int:
        """Give the place of what comes next, or the end of the text."""

    @abstractmethod
    def _in_call(self) -> bool:
        """Say whether a call is open: its name was read."""

    def _text_after_end_marker(self) -> str | None:
        """Give what stands behind a closing marker in a string that is open; None where there is none."""
        return None

    def _is_complete(self) -> bool:
        """Say whether the body has its own end, so that no marker is missed."""
        return False

    def _has_trailing_text(self) -> bool:
        """Say whether something stands behind the last call that does not belong there."""
        return self._state == self._skip_trailing_text

    # The end of the body.

    def _reject_or_wait(self, pos: int, partial: object) -> int:
        """No body begins at `pos`, unless what has `begun` there goes on so that one does."""
        if partial and not self._final:
            self._wait = True
        else:
            self.status = BodyStatus.NO_BODY
        return pos

    def _end_body(self) -> None:
        """The body is over, and what it holds counts."""
        self._sink.finish()
        self.status = BodyStatus.ENDED

    def _end_at_once(self) -> None:
        """The body is over, whatever was found in it last."""
        self._state = self._ended
        if self.status is BodyStatus.READING:
            self._end_body()

    def _ended(self, _text: str, pos: int) -> int:
        self._end_body()
        return pos

    def _continue_at(self, pos: int) -> int:
        """Go on at `pos`: what stands before it is the body's own, a bracket or a comma, and no remark."""
        self._trailing_text.clear()
        if self._trailing_start is not None:
            self._trailing_start = pos
        return pos

    def _after_calls(self, text: str, pos: int) -> int:
        """Behind the last call."""
        pos = self._skip_space(text, pos)
        if pos == len(text):
            return pos
        end = self._end_markers.end_of_marker(text, pos)
        if end is None:
            self._wait = True
        elif end > pos:
            self._end_body()
        else:
            self._state = self._skip_trailing_text
        return end or pos

    def _skip_trailing_text(self, text: str, pos: int) -> int:
        """Look for the closing marker behind something that does not belong there."""
        if self._trailing_start is not None:
            self._trailing_text.add(text[self._trailing_start : pos])
        end = self._trailing_start = self._read_trailing_text(text, pos)
        return end

    # The end of the reply.

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply here; `tail` is what the last `feed` left. Sets `status`, and `rest`."""
        natural = stop_reason in _NATURAL_STOPS
        self._was_truncated = not natural
        if (
            not self._in_call()
            and not self._has_trailing_text()
            and len(tail) > 1
            and self._end_markers.is_partial(tail, 0)
        ):
            tail = ""
        pos = self._read_tail(tail)
        if self.status is BodyStatus.ENDED or self.status is BodyStatus.NO_BODY:
            self.unread += tail[pos:]
            return
        self.status = BodyStatus.READING
        if self._in_call():
            self._close_incomplete()
        else:
            self._close_complete(tail[pos:], natural=natural)
        if self.status is BodyStatus.READING:
            self.status = BodyStatus.ENDED

    def _read_tail(self, tail: str) -> int:
        """Read what is left, now that nothing comes behind it."""
        self._final = True
        pos, self._wait = 0, False
        while pos < len(tail) and not self._wait and self.status not in {BodyStatus.ENDED, BodyStatus.NO_BODY}:
            pos = self.feed(tail, pos)
        return pos

    def _close_incomplete(self) -> None:
        """The reply ended inside a call: one that was meant was cut off, any other is text."""
        behind = self._text_after_end_marker()
        if behind is not None:
            self._abandon_call("malformed", "a string is not closed")
            self.unread = "" if self._is_text else behind
        else:
            self._abandon_call("truncated", "the reply ended inside the call")

    def _close_complete(self, tail: str, *, natural: bool) -> None:
        remarks = self._has_trailing_text()
        self.unread = (self._trailing_text.text() if remarks else "") + tail
        if natural or remarks or self._is_complete():
            self._sink.finish()
        else:
            self._sink.fail_truncated("the reply ended before the closing marker")
