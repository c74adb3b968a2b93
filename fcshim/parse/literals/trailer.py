"""Read what follows the calls of a literal body (trailing text, the end marker), and close the body.

Rule: after the last call only short trailing text may precede the end marker; without a marker after it, that text is
ordinary text again.
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
"""Stop reasons of a reply that ended by itself. After any other, a call without its end marker is truncated."""


class LiteralTrailer(TrailingTextReader):
    """Reads the end of a body; a subclass reads the calls in it."""

    _is_text: bool
    """True where the current call is not a call, so that its text was returned as text."""

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
        """True when the reply is over, so that no more text follows."""
        self._was_truncated = False
        """True when the reply was cut off (a token limit, an error) instead of ending by itself."""
        self._trailing_text = TrailingText(self._end_markers, self._markers)
        """The text after the last call, while no further call has started."""
        self._trailing_start: int | None = None
        """Start of the trailing text in the current piece that is not in `_trailing_text` yet; None inside a call."""

    @abstractmethod
    def _before_first_call(self, text: str, pos: int) -> int:
        """Read the text before the first call."""

    @abstractmethod
    def _abandon_call(self, kind: CallErrorKind, message: str) -> None:
        """Stop the call: end it with an error if it can only be a call, else treat it as text."""

    @abstractmethod
    def _skip_space(self, text: str, pos: int) -> int:
        """Return the end of the white space (and comments) at `pos`."""

    @abstractmethod
    def _in_call(self) -> bool:
        """Say whether a call is open, that is, its name was read."""

    def _text_after_end_marker(self) -> str | None:
        """Return the text after an end marker inside the open string; None where there is no such marker."""
        return None

    def _is_complete(self) -> bool:
        """Say whether the body is complete by its own syntax, without an end marker."""
        return False

    def _has_trailing_text(self) -> bool:
        """Say whether unexpected text follows the last call."""
        return self._state == self._skip_trailing_text

    # The end of the body.

    def _reject_or_wait(self, pos: int, partial: object) -> int:
        """Report that no body starts at `pos`, or wait where a partial match may become one."""
        if partial and not self._final:
            self._wait = True
        else:
            self.status = BodyStatus.NO_BODY
        return pos

    def _end_body(self) -> None:
        """End the body and accept its last call."""
        self._sink.finish()
        self.status = BodyStatus.ENDED

    def _end_at_once(self) -> None:
        """End the body now, or at the next `feed` where another status must be reported first."""
        self._state = self._ended
        if self.status is BodyStatus.READING:
            self._end_body()

    def _ended(self, _text: str, pos: int) -> int:
        self._end_body()
        return pos

    def _continue_at(self, pos: int) -> int:
        """Return `pos` after a bracket or comma that belongs to the body and is therefore not trailing text."""
        self._trailing_text.clear()
        if self._trailing_start is not None:
            self._trailing_start = pos
        return pos

    def _after_calls(self, text: str, pos: int) -> int:
        """After the last call."""
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
        """Look for the end marker after unexpected text."""
        if self._trailing_start is not None:
            self._trailing_text.add(text[self._trailing_start : pos])
        end = self._trailing_start = self._read_trailing_text(text, pos)
        return end

    # The end of the reply.

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply; `tail` is what the last `feed` left unread. Sets `status` and `unread`."""
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
        """Read the tail, after which no more text follows; return where reading stopped."""
        self._final = True
        pos, self._wait = 0, False
        while pos < len(tail) and not self._wait and self.status not in {BodyStatus.ENDED, BodyStatus.NO_BODY}:
            pos = self.feed(tail, pos)
        return pos

    def _close_incomplete(self) -> None:
        """The reply ended inside a call: end it with an error, or treat it as text if it may not be a call."""
        after_marker = self._text_after_end_marker()
        if after_marker is not None:
            self._abandon_call("malformed", "a string is not closed")
            self.unread = "" if self._is_text else after_marker
        else:
            self._abandon_call("truncated", "the reply ended inside the call")

    def _close_complete(self, tail: str, *, natural: bool) -> None:
        has_trailing = self._has_trailing_text()
        self.unread = (self._trailing_text.text() if has_trailing else "") + tail
        if natural or has_trailing or self._is_complete():
            self._sink.finish()
        else:
            self._sink.fail_truncated("the reply ended before the closing marker")
