"""Read a JSON body between markers: strict JSON while it streams, deviations with the tolerant grammar.

Theory of operation. At a deviation the remainder of the body is collected up to an end marker. `repair` rewrites it as
strict JSON, which the same strict reader then reads from its last commit point on.

Rule: this class finds the end of the body and repairs its JSON; subclasses give the values a meaning.
"""

from abc import abstractmethod

from fcshim.events import CallErrorKind, StopReason
from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.repair import RepairError, repair
from fcshim.parse.arguments.strings import State
from fcshim.parse.arguments.typed import TypedJsonReader
from fcshim.parse.body import BodyReader, BodyStatus
from fcshim.parse.dialect import Dialect
from fcshim.parse.end_markers import compile_end_markers
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink

_CLOSING_CHARS = frozenset("}]`")
_MAX_REPAIRS = 2
"""Attempts to repair one body: the cost stays under 10 us a character."""


class RepairingJsonReader(TypedJsonReader, BodyReader):
    """Reads JSON up to an end marker, strict or lenient."""

    def __init__(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> None:
        super().__init__(compile_end_markers(dialect.closers()), sink, limits)
        self.status = BodyStatus.READING
        self.unread = ""
        self.call_count = 0
        self._dialect = dialect
        self._start_marker = start_marker
        self._call_markers = dialect.body_markers()
        self._discarding = False
        """True in a body that is not a call, or a call that must not run: it is read to its end without sending."""
        self._reading_repaired = False
        self._lenient_parts: list[str] = []
        self._lenient_size = 0
        self._end_marker_at = -1
        self._end_marker = ""
        """The end marker at `_end_marker_at`, an offset in the lenient text: it may be content of a string."""
        self._last_lenient_char = ""
        self._repair_count = 0

    @abstractmethod
    def _abandon_call(self, kind: CallErrorKind, message: str, raw: str = "") -> None:
        """Reject the call: end it with an error if its name is an offered tool, else treat it as text."""

    def _end_body(self) -> None:
        """End the body and accept its last call."""
        self._sink.finish()
        self.status = BodyStatus.ENDED

    def _on_deviation(self, _text: str, pos: int) -> int:
        if self._reading_repaired:
            raise NotStrictError
        if self._discarding:
            self._roll_back()
            self._state = self._skip_to_end_marker
            return pos
        # The buffered text was not sent, so it can be read again; if it ends a string, that string is open again.
        self._lenient_parts = [self._roll_back()]
        self._lenient_size = len(self._lenient_parts[0])
        self._last_lenient_char = self._lenient_parts[0].rstrip()[-1:]
        self._state = self._collect_lenient
        return pos

    def _skip_to_end_marker(self, text: str, pos: int) -> int:
        """Skip the remainder of an unreadable body, up to its end marker or the next call."""
        closes = self._dialect.closes_bodies
        found = (self._end_markers if closes else self._call_markers).search(text, pos)
        if found is not None:
            self.status = BodyStatus.ENDED
            return found.end() if closes else found.start()
        end = self._call_markers.partial_start(text, pos)
        self._wait = end < len(text)
        return end

    # Collecting lenient text.

    def _collect_lenient(self, text: str, pos: int) -> int:
        """Collect text that is not strict JSON, up to an end marker, or to the start marker of the next call."""
        found = self._call_markers.search(text, pos)
        end = found.start() if found else self._call_markers.partial_start(text, pos)
        self._add_lenient(text[pos:end])
        if not found:
            self._wait = end < len(text)
            return end
        if found[0] not in self._inner_start_markers:
            return self._read_end_marker(found[0], found.start(), found.end())
        if not self._repair_count and self._looks_complete() and self._try_repair():
            self.status = BodyStatus.ENDED
            return found.start()
        self._add_lenient(found[0])
        return found.end()

    @property
    def _inner_start_markers(self) -> tuple[str, ...]:
        return self._dialect.inner_openers()

    def _looks_complete(self) -> bool:
        return self._last_lenient_char in _CLOSING_CHARS

    def _add_lenient(self, text: str) -> None:
        self._lenient_parts.append(text)
        self._lenient_size += len(text)
        self._last_lenient_char = text.rstrip()[-1:] or self._last_lenient_char
        if self._lenient_size > self._limits.mend:
            raise LimitError(f"more than {self._limits.mend} characters that are not strict JSON")

    def _read_end_marker(self, end_marker: str, start: int, end: int) -> int:
        try:
            self._repair(closed=True)
        except RepairError as error:
            # The marker may be content of a string that closes later: collect on, up to the next end marker.
            if error.where == "string" and self._repair_count < _MAX_REPAIRS:
                if self._end_marker_at < 0:
                    self._end_marker_at, self._end_marker = self._lenient_size, end_marker
                self._add_lenient(end_marker)
                return end
            self._fail_malformed(error)
            if self._end_marker_at >= 0 and error.where == "syntax":
                self.unread = self._text_after_end_marker("".join(self._lenient_parts))
                self.status = BodyStatus.ENDED
                return start
        self._end_body()
        return end

    def _text_after_end_marker(self, lenient: str) -> str:
        return lenient[self._end_marker_at + len(self._end_marker) :]

    # Repairing.

    def _try_repair(self) -> bool:
        """Try to repair the collected text as a body without an end marker."""
        try:
            self._repair(closed=False)
        except RepairError:
            return False
        self._sink.finish()
        return True

    def _repair(self, *, closed: bool) -> None:
        """Repair the collected text and read the result. Raises `RepairError`."""
        self._repair_count += 1
        lenient = "".join(self._lenient_parts)
        grammar = self._dialect.body.grammar
        repaired = repair(grammar, self._containers, self._commit_point, lenient, self._dialect.call_markers())
        if not closed and not repaired.complete:
            raise RepairError("the body is not complete", "syntax")
        self._reading_repaired = True
        self._state = self._state_at_commit_point()
        try:
            self.read_whole(repaired.text)
        except NotStrictError:
            self._fail_malformed(RepairError("not JSON", "value"))

    def _state_at_commit_point(self) -> State:
        match self._commit_point:
            case "opened":
                return self._read_first_key if self._containers[-1] == "{" else self._read_first_item
            case "after":
                return self._after_value if self._containers else self._after_end
            case "string":
                return self._read_string
            case "start":  # a body begins with a bracket, which is a commit point
                raise AssertionError

    def _fail_malformed(self, error: RepairError) -> None:
        self._abandon_call("malformed", str(error), "".join(self._lenient_parts))

    # The end of the reply.

    def _close_incomplete(self) -> None:
        """End the reply inside the body: a call whose name is known is truncated, everything else is text."""
        if self._discarding and not self._sink.is_complete:
            return
        self._roll_back()
        self._abandon_call("truncated", "the reply ended inside the call")
        self._sink.fail_truncated("the reply ended inside the call")

    def _close_lenient(self, tail: str, *, natural: bool) -> None:
        self._lenient_parts.append(tail)
        if self._end_marker_at >= 0:
            lenient = "".join(self._lenient_parts)
            self.unread = self._text_after_end_marker(lenient)
            self._abandon_call("malformed", "a string is not closed", lenient)
        elif not (natural and self._try_repair()):
            self._close_incomplete()

    def _close_paused(self, tail: str, *, natural: bool) -> None:
        """End the reply inside a string with an end marker: the marker ended the call, whose brackets are missing."""
        if not natural or self._discarding:
            self._close_incomplete()
            return
        source = self._roll_back()
        end_marker = self._end_markers.marker_at(source, 0)
        self.unread = source[len(end_marker) :] + tail
        self._reading_repaired = True
        self._state = self._read_string
        missing = "".join("}" if container == "{" else "]" for container in reversed(self._containers))
        try:
            self.read_whole('"' + missing)
        except NotStrictError:
            self._abandon_call("malformed", "a string is not closed", end_marker)
        self._sink.finish()

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply; `tail` is what the last `feed` did not consume. Sets `status` and `unread`."""
        self.status = BodyStatus.READING
        natural = stop_reason in {"complete", "stop_sequence", "tool_use"}
        if self._state == self._collect_lenient:
            self._close_lenient(tail, natural=natural)
        elif self._paused:
            self._close_paused(tail, natural=natural)
        else:
            self._close_incomplete()
        if self.status is BodyStatus.READING:
            self.status = BodyStatus.ENDED
