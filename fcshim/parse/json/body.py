"""Read a body of JSON: `{"name": ..., "arguments": {...}}`, or an array of such objects.

Theory of operation. The strict reader reads the whole body, `envelope` finds the parts of the calls in it, and `calls`
sends them. At a deviation from strict JSON, `repair` reads the remainder.

    state                  position                                      left by
    _before_body           after the start marker                        a bracket; anything else is not a body
    None                   JSON, while it is strict (`StrictJsonReader`) its last bracket; a deviation
    _in_lenient            JSON that is not strict                       the end of the body
    _after_unfinished      after a call that may go on                   what follows the end marker
    _in_trailer            after a call                                  the end of the body; the next call
    _skip_to_end_marker    the remainder of an unreadable body           the end of the body

A body that turns out not to be a call is still read to its end (`BodyProgress.discarding`), so that a call inside its
strings is not found.

Rule: the start of a call is sent with the first character of its arguments; until then the body can become text.
"""

from dataclasses import dataclass

from fcshim.events import StopReason
from fcshim.parse.arguments.buffering import NO_HANDLER, LimitError, NotStrictError
from fcshim.parse.arguments.strict import State, StrictJsonReader
from fcshim.parse.body import NATURAL_STOPS, READING, BodyReader, BodyStatus, disposed_state
from fcshim.parse.call_keys import JsonKeys
from fcshim.parse.dialect import Dialect, compiled_call_markers, compiled_closers
from fcshim.parse.json.call import JsonCalls
from fcshim.parse.json.envelope import JsonEnvelope
from fcshim.parse.json.repairing import JsonRepair
from fcshim.parse.json.surroundings import (
    JsonTrailer,
    continues_in_next_body,
    fence_end,
    json_begins,
    skip_space,
)
from fcshim.parse.limits import Limits
from fcshim.parse.markers import MarkerSet
from fcshim.parse.restart import BEGUN_AGAIN, RestartWatch, restart_markers
from fcshim.parse.sink import CallSink


@dataclass(frozen=True, slots=True)
class JsonShape(JsonKeys):
    """The JSON of a dialect's calls."""

    semicolons: bool = False
    """True if further calls may follow after a semicolon."""
    keyed: bool = False
    """True if a body must begin with a known key: nothing else distinguishes it from other JSON."""
    grammar: str = "json_call"

    def begins(self, text: str, pos: int) -> bool | None:
        """Return whether JSON can begin at `pos`; None if more text is needed to decide."""
        return json_begins(text, pos, self.first_keys if self.keyed else frozenset())

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Create the reader of one body."""
        return JsonBody(self, dialect, start_marker, sink, limits)


_IN_STRICT_JSON = None
"""The state of a body while the strict reader reads, which has states of its own."""


class JsonBody(BodyReader):
    """Reads one body."""

    def __init__(self, shape: JsonShape, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> None:
        self._shape = shape
        self._dialect = dialect
        self._start_marker = start_marker
        self._sink = sink
        self._limits = limits
        self._end_markers = compiled_closers(dialect)
        self._reader = StrictJsonReader(self._end_markers, limits)
        self._buffer = self._reader.buffer
        self._calls = JsonCalls(self._reader, sink, limits)
        self._progress = self._calls.progress
        self._arguments = self._calls.arguments
        self._envelope = JsonEnvelope(
            shape, self._calls, self._buffer, sink, known_keys_only=dialect.bare or shape.keyed
        )
        self._buffer.handler = self._envelope
        self._restarts = RestartWatch(restart_markers(dialect), sink, limits)
        self._call_markers: MarkerSet = self._end_markers
        self._repair: JsonRepair | None = None
        self._calls_before_repair = 0
        self._trailer: JsonTrailer | None = None
        self._state: State | None = self._before_body

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` until the status changes, and return the position reached."""
        if "\n" in text and self._restarts.concerns(text, pos):
            return self._restarts.feed(self, text, pos)
        progress, reader, arguments = self._progress, self._reader, self._arguments
        if progress.end_pending:
            self._report_pending_end()
            return pos
        progress.status = READING
        reader.stop = False
        size = len(text)
        try:
            while pos < size:
                try:
                    pos = (self._state or reader.read_next)(text, pos)
                except NotStrictError as error:
                    self._leave_strict()
                    pos = error.pos
                if not reader.stop and progress.status is READING:
                    continue
                if not reader.is_complete or self._state is not _IN_STRICT_JSON:
                    break
                self._begin_trailer()
                if progress.status is not READING:
                    break
                reader.stop = False
            if arguments.output or arguments.collected:
                arguments.flush()
        except LimitError as error:
            pos = self._end_at_limit(error, text, pos)
        self.in_content = reader.in_content and arguments.streams
        self.status = progress.status
        return pos

    def _report_pending_end(self) -> None:
        """Report the end of a call that was text, or of the body if its remainder was text."""
        self._progress.report_pending_end()
        if self._repair is not None and self._repair.ended:
            self._progress.end_body()
        self.status = self._progress.status

    def is_unfinished(self, _unread: str) -> bool:
        """Return whether a call may be unfinished."""
        return self._state in {_IN_STRICT_JSON, self._in_lenient, self._skip_to_end_marker}

    def begins_after(self, marker: str, text: str, pos: int) -> bool | None:
        """Return whether a call begins with this start marker, which ends at `pos`, in an unfinished body."""
        begins = marker in self._dialect.section.openers() or self._dialect.body.begins(text, pos)
        # The body is judged once the whole marker is known: a part of one may also be content.
        if begins and self._state == self._in_lenient and self._repair is not None:
            return not self._repair.is_complete()
        return begins

    def send_string_piece(self, text: str) -> bool:
        """Send `text` and return True if all of it is content of a string in the arguments; else change nothing."""
        if self._end_markers.plain_run.fullmatch(text) is None:
            return False
        self._buffer.at_string_start = False
        return self._sink.fits(len(text)) and self._sink.add_chunk(text)

    def refuse(self) -> None:
        """Treat the current call and all later calls of this body as text."""
        self._progress.discarding = "body"
        self._calls.discard()
        self.in_content = False

    def dispose(self) -> None:
        """Break the reference cycles through handlers and bound state methods, so that the memory is freed at once."""
        self._state = disposed_state
        self._arguments.end()
        self._buffer.handler = NO_HANDLER
        self._reader.dispose()

    # Before the JSON.

    def _before_body(self, text: str, pos: int) -> int:
        pos = skip_space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] in "{｛":
            self._state = _IN_STRICT_JSON
        elif text[pos] in "[［":
            self._envelope.begin_array()
            self._state = _IN_STRICT_JSON
        elif text[pos] == "`":
            end = fence_end(text, pos)
            self._reader.stop = end is None
            if end == pos:
                self._progress.reject_body()
            return end or pos
        elif self._start_marker and text.startswith(self._start_marker, pos):
            doubled, self._start_marker = self._start_marker, ""
            return pos + len(doubled)
        elif self._start_marker.startswith(text[pos:]):
            self._reader.stop = True
        else:
            self._progress.reject_body()
        return pos

    # The JSON.

    def _leave_strict(self) -> None:
        """Collect the rest after a deviation, for its reading; a call that is discarded is not worth that."""
        source = self._reader.roll_back()
        if self._progress.discarding:
            self._begin_skip()
        else:
            unfinished = self._sink.is_open and not self._sink.is_complete
            self._calls_before_repair = self._sink.call_count - unfinished
            self._repair = JsonRepair(source, self._dialect, self._reader, self._calls, self._envelope, self._limits)
            self._state = self._in_lenient

    def _in_lenient(self, text: str, pos: int) -> int:
        repair, progress = self._repair, self._progress
        assert repair is not None
        pos = repair.feed(text, pos)
        self._reader.stop = repair.wait
        if repair.ended:
            # Where no call could be read from the remainder, it is text; that is reported first.
            is_text, reading = progress.status is BodyStatus.NOT_A_CALL, self._calls.reading
            progress.end_pending = is_text and self._sink.call_count == self._calls_before_repair
            if not progress.end_pending:
                self.unread = repair.unread
                self._end_call(may_go_on=reading is not None and reading.lacks_brackets and not is_text)
        return pos

    def _end_call(self, *, may_go_on: bool) -> None:
        """End the body, or look at what follows the end marker of a call that lacks something."""
        if may_go_on and self._sink.is_complete and not self.unread:
            self._state = self._after_unfinished
        else:
            self._progress.end_body()

    def _after_unfinished(self, text: str, pos: int) -> int:
        """Look at what follows the end marker of a call without its brackets, or without an argument that it needs.

        Its rest may stand there, also in another body.
        """
        is_quoted = text[pos] in "\"'" and self._calls.ends_with_string()  # the marker is content of the last string
        continued = is_quoted or continues_in_next_body(text, pos, self._dialect.body_openers())
        self._reader.stop = True
        if continued is not None:
            self._reject_rest(continued=continued)
            self._progress.end_body()
        return pos

    def _reject_rest(self, *, continued: bool) -> None:
        """Reject the call if what follows it may be a part of it."""
        if continued and self._sink.is_open:
            self._sink.fail("malformed", "what follows the call may be a part of it")

    def _end_at_limit(self, error: LimitError, text: str, pos: int) -> int:
        try:
            self._calls.abandon("limit", str(error))
        except LimitError as earlier:
            self._calls.abandon("limit", str(earlier))
        self._begin_skip()
        return self._skip_to_end_marker(text, pos) if self._progress.status is READING else pos

    def _begin_skip(self) -> None:
        self._call_markers = compiled_call_markers(self._dialect)
        self._state = self._skip_to_end_marker

    def _skip_to_end_marker(self, text: str, pos: int) -> int:
        """Skip the remainder of an unreadable body, up to its end marker or the next call."""
        closes = self._dialect.closes_bodies
        found = (self._end_markers if closes else self._call_markers).search(text, pos)
        if found is not None:
            self._progress.end_body()
            return found.end() if closes else found.start()
        end = self._call_markers.partial_start(text, pos)
        self._reader.stop = end < len(text)
        return end

    # After the JSON.

    def _begin_trailer(self) -> None:
        envelope = self._envelope
        calls_follow = not (envelope.outer_depth or envelope.has_header)
        self._trailer = JsonTrailer(
            self._dialect,
            self._end_markers,
            self._limits,
            self._calls,
            name_keys=frozenset(self._shape.name_keys) if calls_follow else frozenset(),
            semicolons=self._shape.semicolons,
            # Where the name stands in front, another object before the end marker holds arguments, too.
            takes_all=envelope.has_header and self._dialect.closes_bodies,
        )
        self._state = self._in_trailer

    def _in_trailer(self, text: str, pos: int) -> int:
        trailer = self._trailer
        assert trailer is not None
        if self._progress.discarding and not trailer.in_text:
            return self._after_discarded(text, pos)
        pos = trailer.feed(text, pos)
        self._reader.stop = trailer.wait
        if trailer.position == "before_call":
            self._envelope.begin_next_call()
            self._reader.begin_value()
            self._state = _IN_STRICT_JSON
        elif trailer.position == "at_end":
            self.unread = trailer.unread
            self._reject_rest(continued=trailer.may_belong_to_call())
            self._end_call(may_go_on=self._arguments.lacks_required and self._dialect.closes_bodies)
        return pos

    def _after_discarded(self, text: str, pos: int) -> int:
        """After a call that must not run: read its end marker, if there is one."""
        end: int | None = pos
        if self._dialect.closes_bodies:
            pos = skip_space(text, pos)
            if pos == len(text):
                return pos
            end = self._end_markers.end_of_marker(text, pos)
        if end is None:
            self._reader.stop = True
        elif end == pos and self._dialect.fenced:
            self._begin_skip()
        else:
            self._progress.end_body()
        return end or pos

    # The end of the reply.

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply; `tail` is what the last `feed` did not consume. Sets `status` and `unread`."""
        if self._progress.end_pending and self._repair is not None and self._repair.ended:
            self._report_pending_end()
            self.unread = tail
            return
        self._progress.status = READING
        natural = stop_reason in NATURAL_STOPS
        unread = self._restarts.unread(tail, keep_newline=self._dialect.call.at_line_start)
        if unread and natural:
            if not self._progress.discarding:
                self._reader.roll_back()
                self._calls.abandon("malformed", BEGUN_AGAIN)
            self._sink.finish()
            self.unread, self.status = unread, BodyStatus.ENDED
            return
        try:
            self._close_state(tail, natural=natural)
        except LimitError as error:
            self._end_at_limit(error, "", 0)
        self.status = BodyStatus.ENDED if self._progress.status is READING else self._progress.status

    def _close_state(self, tail: str, *, natural: bool) -> None:
        trailer = self._trailer
        if self._state == self._in_trailer and trailer is not None:
            if self._progress.discarding:
                return
            trailer.close(tail)
            self.unread = trailer.unread
            self._reject_rest(continued=trailer.may_belong_to_call())
            if natural or trailer.in_text:
                self._sink.finish()
            else:
                self._sink.fail_truncated("the reply ended before the closing marker")
        elif self._state == self._in_lenient and self._repair is not None:
            self._repair.close(tail, natural=natural)
            if not self._repair.ended:
                self._close_incomplete()
            self.unread = self._repair.unread if self._repair.ended else ""
            self._sink.finish()
        elif self._state == self._after_unfinished:
            self.unread = tail
            self._sink.finish()
        elif self._buffer.paused and natural and not self._progress.discarding:  # the string may have been longer
            source = self._reader.roll_back()
            end_marker = self._end_markers.marker_at(source, 0)
            self.unread = source[len(end_marker) :] + tail
            self._calls.abandon("malformed", "a string is not closed", end_marker)
            self._sink.finish()
        else:
            self._close_incomplete()

    def _close_incomplete(self) -> None:
        """End the reply inside the body: a call whose name is known is truncated, everything else is text."""
        if self._progress.discarding and not self._sink.is_complete:
            return
        self._reader.roll_back()
        self._calls.abandon("truncated", "the reply ended inside the call")
        self._sink.fail_truncated("the reply ended inside the call")
