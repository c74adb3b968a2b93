"""The streaming parser: model text in, events out.

Theory of operation. A tag machine: one state, one method; each takes the position in the current text and gives the
next one; `_stall` says that what is left (a few characters) must wait for more text.

    state              is in                                            left by
    _lead              the start of the reply, or after reasoning       any character; a reasoning tag
    _reasoning         a reasoning block                                its closing tag
    _text              the answer                                       a marker, a fence line
    _call              a call's body (the body reader is in charge)     the end of the body
    _behind_call       the end of a call                                anything but the same closing marker again
    _in_section        between the calls of a section                   a call, the section's end, anything else
    _fence             a code fence: text to its end                    its closing line
    _fence_calls       a fence that so far holds only calls (held)      anything else; its closing line
    _only_space        behind held calls that count only at the end     anything else
    _span_end          behind a call in an open span or quote (held)    the closing backticks or quote; a blank line
    _echo              a tool result that the model repeats             its closing tag
    _rest              whatever follows a role marker                   nothing

What must wait until it is known whether it is quoted is held (`output`).

Rule: nothing is searched twice; only a tail that really begins a marker waits.
Neighbours: `machine` has the other states, from fences (`code`) to reasoning, and the markers (`openers`).
"""

from collections.abc import Callable, Sequence

from fcshim.events import JSON, Event, Stop, StopReason, Text
from fcshim.ids import id_source
from fcshim.messages import Tool, as_tools
from fcshim.parse.body import READING, BodyReader, BodyStatus
from fcshim.parse.dialects import AUTO, Dialect, get_dialect
from fcshim.parse.limits import DEFAULT_LIMITS, Limits
from fcshim.parse.machine.context import QUOTE_PAIRS, reasoning_end_tag
from fcshim.parse.machine.output import PendingCalls
from fcshim.parse.machine.reasoning import ReasoningMachine, ReasoningPolicy
from fcshim.parse.machine.start_markers import Opening, compile_start_markers
from fcshim.parse.machine.surrogates import SurrogateJoiner
from fcshim.parse.markers import marker_set
from fcshim.parse.sink import ArgumentsMode, CallSink

_NATURAL_STOPS: frozenset[StopReason] = frozenset({"complete", "stop_sequence", "tool_use"})


class StreamParser(ReasoningMachine):
    """Finds the calls in one reply while it streams.

    `dialect` is a name, a `Dialect`, or `"auto"`: every dialect of the table at once. `tools` are the offered ones
    (`Tool` objects or OpenAI dicts), None admits any name. With `rescue`, calls to offered tools in every other dialect
    are read too. `reasoning` says what becomes of a call inside reasoning; `in_reasoning` is the opening tag
    (`<think>`) with which the prompt already ended. `arguments` says whether they are sent as they come or whole and
    validated, as those of strict tools are, unless the model is `held` to valid calls. With `marked`, a `Spoiled` is
    before the text of what was meant as a call. `new_id` makes the ids of calls. Raises `ConfigError` for an unknown
    dialect or reasoning tag, `RequestError` for unusable tools, and nothing whatever the text is.
    """

    def __init__(
        self,
        dialect: str | Dialect = "function_call",
        tools: Sequence[Tool | dict[str, JSON]] | None = None,
        *,
        rescue: bool = False,
        reasoning: ReasoningPolicy = "ignore",
        in_reasoning: str = "",
        arguments: ArgumentsMode = "stream",
        held: bool = False,
        new_id: Callable[[], str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        marked: bool = False,
    ) -> None:
        asked = None if dialect == AUTO else get_dialect(dialect)
        offered = None if tools is None else {tool.name: tool for tool in as_tools(tools)}
        super().__init__(
            compile_start_markers(
                asked, others=asked is None or (rescue and offered is not None), allow_bare=offered is not None
            ),
            CallSink(offered, arguments, new_id or id_source(), limits.arguments),
            limits,
            fenced_calls=offered is not None,
            policy=reasoning,
            primary=asked,
        )
        self._reports_defects = marked
        self._schema_enforced = held
        self._state = self._before_answer
        self._surrogates = SurrogateJoiner()
        self._result_end_tag = ""
        self._direct_reader: BodyReader | None = None
        """The reader of a call that was started: it may have the next piece at once, if that is ASCII."""
        self.finished = False
        """True when the model began to invent a tool's result: the rest is dropped, upstream may be cancelled."""
        if in_reasoning:
            self._enter_reasoning(reasoning_end_tag(in_reasoning))

    def feed(self, text: str) -> list[Event]:
        """Read the next piece of text; give the events it completes."""
        body = self._direct_reader
        if body is None or not text.isascii():
            if self.finished:
                return []
            text, body = self._join_surrogates(text)
            if body is None:
                return self._feed_text(text)
        # Inside a call that was started, what its reader consumes needs no account.
        events: list[Event] = []
        self._output.events = self._sink.events = events
        if self._carry:
            text, self._carry = self._carry + text, ""
        elif body.in_content and body.send_string_piece(text):
            return events
        pos = body.feed(text, 0)
        if body.status is READING:
            self._carry = text[pos:]
            return events
        self._buffer = text
        self._loop(self._apply_status(body, pos))
        self._update_direct_reader()
        return self._output.finish()

    def _join_surrogates(self, text: str) -> tuple[str, BodyReader | None]:
        """Give the piece without half characters, and the reader that may have it at once."""
        if self._surrogates.pending or not text.isascii():
            text = self._surrogates.feed(text)
            self._update_direct_reader()
        return text, self._direct_reader

    def _feed_text(self, text: str) -> list[Event]:
        """Outside a call, or in one that may still be text."""
        if self._state == self._in_text and not self._output.line.open_backticks and not self._overlong_char:
            text, self._carry = self._carry + text, ""
            end = self._find_plain_end(text)
            if end >= 0:
                text, self._carry = text[:end], text[end:]
                if not text:
                    return []
                self._output.line.add(text)
                return [Text(text)]
        self._output.begin()
        self._read(text)
        self._update_direct_reader()
        return self._output.finish()

    def _find_plain_end(self, text: str) -> int:
        """Give the end of a piece of the answer in which nothing begins but, at its very end, a marker; else -1."""
        openers = self._start_markers
        head = self._output.line.head
        # Inside a line fewer characters mean something; beyond a newline that is no longer so.
        for plain in (
            (openers.plain_text_in_line, openers.plain_text) if head and not head.isspace() else (openers.plain_text,)
        ):
            found = plain.match(text)
            assert found is not None
            end = found.end()
            if end == len(text) or openers.all_markers.is_partial(text, end):
                return end
        return -1

    def _update_direct_reader(self) -> None:
        body = self._body
        ready = self._consumed_text == "drop" and self._output.pending is None and not self._surrogates.pending
        self._direct_reader = body.active_reader() if body is not None and ready else None

    def close(self, stop_reason: StopReason = "complete") -> list[Event]:
        """End the reply; give what was held, then one `Stop`: `tool_use` where it ended by itself with calls."""
        self._output.begin()
        half = self._surrogates.close()
        if half and not self.finished:
            self._read(half)
        while self._close_state(stop_reason):
            pass
        events = self._output.finish()
        natural = stop_reason in _NATURAL_STOPS
        if natural:
            stop_reason = (
                "tool_use" if self._sink.accepted_count else "complete" if stop_reason == "tool_use" else stop_reason
            )
        events.append(Stop(stop_reason))
        self.finished = True
        self._direct_reader = None
        # Without its states the parser holds no reference to itself: its memory is free at once.
        self._state = self._return_state = _closed_state
        return events

    # Text.

    def _in_text(self, pos: int) -> int:
        buffer = self._buffer
        if self._overlong_char:
            pos = self._skip_overlong_run(pos)
        found = self._start_markers.all_markers.search(buffer, pos)
        if found is None:
            return self._emit_up_to(self._start_markers.all_markers.partial_start(buffer, pos), pos)
        start, end, marker = found.start(), found.end(), found[0]
        if len(buffer) - start < self._start_markers.all_markers.max_length:
            tail = self._start_markers.all_markers.partial_start(buffer, pos)
            if tail < start:  # what was found may stand inside a longer marker
                return self._emit_up_to(tail, pos)
        self._output.emit_text(buffer[pos:start])
        if marker[0] in "`~":
            return self._read_run(start, end)
        if self._start_markers.all_markers.is_partial(buffer, start):
            self._wait = True
            return start
        return self._read_marker(marker, start, end)

    def _read_marker(self, marker: str, start: int, end: int) -> int:
        if marker in self._start_markers.openings:
            return self._read_start_marker(marker, start, end)
        if marker in self._start_markers.result_tags:
            return self._read_result_tag(marker, end)
        if marker in self._start_markers.markup:
            self._state = self._before_answer
        else:
            self._output.emit_text(marker)
            self._state = self._after_role_marker
        return end

    def _read_start_marker(self, marker: str, start: int, end: int) -> int:
        """A call begins, or is quoted, or the marker is no marker here."""
        line = self._output.line
        if marker in self._start_markers.body_start_chars and not line.at_line_start():
            picked: Opening | bool | None = False
        else:
            picked = self._start_markers.find_opening(marker, self._buffer, start)
        if picked is None:
            self._wait = True
            return start
        if not isinstance(picked, Opening) or (marker[0] != "\n" and line.is_block_quote()):
            self._output.emit_text(marker)
            return end
        if marker[0] == "\n":
            self._output.emit_text("\n")
            start, marker = start + 1, marker[1:]
        return self._begin_call(picked, marker, start, self._in_text)

    def _begin_call(self, opening: Opening, marker: str, start: int, return_state: Callable[[int], int]) -> int:
        """Open what begins here, held where it may be quoted or must be the last thing."""
        line = self._output.line
        closing_quote = QUOTE_PAIRS.get(line.last_char, "")
        if closing_quote or line.open_backticks:
            if opening.must_be_last:
                self._output.emit_text(marker)
                self._state = self._in_text
                return start + len(marker)
            self._output.begin_pending("span").closing_quote = closing_quote
        elif opening.must_be_last:
            self._output.begin_pending("bare")
        return self._open(opening, marker, start, return_state)

    def _open_fence(self, line: str, pos: int) -> int:
        """In a dialect that is asked for, the fence itself may open the call."""
        opening = self._start_markers.fence_openings.get(line.strip())
        begins = opening.dialect.body.begins(self._buffer, pos) if opening is not None else False
        if opening is None or begins is False:
            return super()._open_fence(line, pos)
        if begins is None:
            self._wait = True
            return pos - len(line)
        self._open_body(opening.dialect, line, self._in_text)
        return pos

    def _read_result_tag(self, marker: str, end: int) -> int:
        """The model writes a tool's result: after a call it invents one, else it repeats one."""
        if self._sink.accepted_count:
            self.finished = True
            return len(self._buffer)
        self._output.emit_text(marker)
        self._result_end_tag = self._start_markers.result_tags[marker]
        self._state = self._in_echoed_result
        return end

    def _in_echoed_result(self, pos: int) -> int:
        closer = self._result_end_tag
        at = self._buffer.find(closer, pos)
        if at < 0:
            return self._emit_up_to(marker_set((closer,)).partial_start(self._buffer, pos), pos)
        self._output.emit_text(self._buffer[pos : at + len(closer)])
        self._state = self._in_text
        return at + len(closer)

    def _after_role_marker(self, pos: int) -> int:
        self._output.emit_text(self._buffer[pos:])
        return len(self._buffer)

    # The end.

    def _close_state(self, stop_reason: StopReason) -> bool:
        """End the state the reply ended in; True if that left text to be read, in yet another state."""
        tail, self._carry = self._carry, ""
        if self.finished:
            return False
        if self._body is not None:
            return self._close_body(self._body, tail, stop_reason)
        if self._output.pending is not None:
            return self._close_pending(self._output.pending, tail, natural=stop_reason in _NATURAL_STOPS)
        if self._section is not None:
            begun = bool(tail) and self._section.dialect.section_close.startswith(tail)
            self._end_section(self._section, tail if begun else "", 0)
            tail = "" if begun else tail
        self._output.emit_text(tail)
        return False

    def _close_body(self, body: BodyReader, tail: str, stop_reason: StopReason) -> bool:
        body.close(tail, stop_reason)
        self._record_consumed(tail)
        if body.status is BodyStatus.NOT_A_CALL:
            if stop_reason in _NATURAL_STOPS:
                self._report_defect()
            self._emit_raw_as_text("")
            self._body = None
            return False
        self._end_body(body, 0)
        self._buffer = ""
        if self._consumed_text != "say":
            self._read(body.unread)
        return self._output.pending is not None or self._body is not None or bool(self._carry)

    def _close_pending(self, pending: PendingCalls, tail: str, *, natural: bool) -> bool:
        if pending.kind == "span":
            self._accept_unquoted(0)
            self._read(tail)
            return True
        closes = len(tail) >= self._fence_length and not tail.strip().strip(self._fence_char)
        if natural and pending.accepted and (not tail or (pending.kind == "fence" and closes)):
            self._output.accept_calls()
            return False
        self._output.release_as_text()
        self._output.emit_text(tail)
        return False


def parse(
    text: str,
    dialect: str | Dialect = "function_call",
    tools: Sequence[Tool | dict[str, JSON]] | None = None,
    *,
    stop_reason: StopReason = "complete",
    rescue: bool = False,
    reasoning: ReasoningPolicy = "ignore",
    in_reasoning: str = "",
    arguments: ArgumentsMode = "stream",
    new_id: Callable[[], str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Event]:
    """Read a whole reply: `feed` and `close` of a `StreamParser`, which see."""
    parser = StreamParser(
        dialect,
        tools,
        rescue=rescue,
        reasoning=reasoning,
        in_reasoning=in_reasoning,
        arguments=arguments,
        new_id=new_id,
        limits=limits,
    )
    return parser.feed(text) + parser.close(stop_reason)


def _closed_state(_pos: int) -> int:
    raise AssertionError
