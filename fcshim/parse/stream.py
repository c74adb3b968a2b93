"""The streaming parser: model text in, events out.

Theory of operation. A tag machine: each state is one method, which takes a position in the current text and returns the
next one; `_wait` asks for more text after the remaining few characters.

    state                   position                                        left by
    _before_answer          the start of the reply, or after reasoning      any character; a reasoning tag
    _in_reasoning           a reasoning block                               its end tag
    _in_text                the answer                                      a marker; a fence line
    _in_call                a call's body, read by the body reader          the end of the body
    _after_call             after a call                                    anything but a duplicate end marker
    _in_section             between the calls of a section                  a call; the section's end; anything else
    _in_fence               a code fence whose content is text              its closing line
    _in_fence_of_calls      a fence with only calls so far (pending)        anything else; its closing line
    _after_pending_calls    after pending calls that must come last         anything else
    _after_call_in_span     a call in an open span or quote (pending)       closing backticks or quote; a blank line
    _in_echoed_result       a tool result that the model repeats            its end tag
    _after_role_marker      after a role marker: all of it is text          nothing

Calls that may be quoted stay pending (`output`) until the context decides.

Rule: no text is searched twice; only a tail that is a proper prefix of a marker waits.
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

    `dialect` is a name, a `Dialect`, or `"auto"`: all dialects of the table at once. `tools` are the offered tools
    (`Tool` objects or OpenAI dicts); None admits any name. With `rescue`, calls to offered tools in any other dialect
    are accepted too. `reasoning` decides about a call inside reasoning: `ignore` it, `recover` it if the reasoning
    never ends and the call comes last, or `promote` it. `in_reasoning` is the start tag (`<think>`) that the prompt
    ends with. `arguments` selects how arguments are sent: `stream` as the model writes them, `validated` whole. Those
    of strict tools are always validated, unless `held` says that a grammar constrains the model to valid calls. With
    `marked`, a `CallDefect` precedes the text of a rejected call. `new_id` creates the ids of calls. Raises
    `ConfigError` for an unknown dialect or reasoning tag, `RequestError` for unusable tools, and nothing for any text.
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
        primary = None if dialect == AUTO else get_dialect(dialect)
        offered = None if tools is None else {tool.name: tool for tool in as_tools(tools)}
        super().__init__(
            compile_start_markers(
                primary, others=primary is None or (rescue and offered is not None), allow_bare=offered is not None
            ),
            CallSink(offered, arguments, new_id or id_source(), limits.arguments),
            limits,
            fenced_calls=offered is not None,
            policy=reasoning,
            primary=primary,
        )
        self._reports_defects = marked
        self._schema_enforced = held
        self._state = self._before_answer
        self._surrogates = SurrogateJoiner()
        self._result_end_tag = ""
        self._direct_reader: BodyReader | None = None
        """The reader of a started call, if the next ASCII piece may go to it directly."""
        self.finished = False
        """True once the model begins to invent a tool's result: the remainder is dropped, upstream may be cancelled."""
        if in_reasoning:
            self._enter_reasoning(reasoning_end_tag(in_reasoning))

    def feed(self, text: str) -> list[Event]:
        """Parse the next piece of text; return the events it completes."""
        body = self._direct_reader
        if body is None or not text.isascii():
            if self.finished:
                return []
            text, body = self._join_surrogates(text)
            if body is None:
                return self._feed_text(text)
        # Fast path: inside a started call the consumed text need not be kept, because it can no longer become text.
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
        """Join surrogate pairs in the piece; return it with the reader that may read it directly."""
        if self._surrogates.pending or not text.isascii():
            text = self._surrogates.feed(text)
            self._update_direct_reader()
        return text, self._direct_reader

    def _feed_text(self, text: str) -> list[Event]:
        """Parse a piece outside a call, or in a call that may still be text."""
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
        """Return the end of a piece of plain text, which may end with a proper marker prefix; else -1."""
        markers = self._start_markers
        head = self._output.line.head
        # Inside a line fewer characters can begin a marker, but that pattern matches only up to a newline.
        for plain in (
            (markers.plain_text_in_line, markers.plain_text) if head and not head.isspace() else (markers.plain_text,)
        ):
            found = plain.match(text)
            assert found is not None
            end = found.end()
            if end == len(text) or markers.all_markers.is_partial(text, end):
                return end
        return -1

    def _update_direct_reader(self) -> None:
        body = self._body
        ready = self._consumed_text == "drop" and self._output.pending is None and not self._surrogates.pending
        self._direct_reader = body.active_reader() if body is not None and ready else None

    def close(self, stop_reason: StopReason = "complete") -> list[Event]:
        """End the reply; return the remaining events and one `Stop`: `tool_use` if it ended by itself with calls."""
        self._output.begin()
        replacement = self._surrogates.close()
        if replacement and not self.finished:
            self._read(replacement)
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
        # The bound state methods are reference cycles; without them the memory is freed immediately.
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
            if tail < start:  # the match may be part of a longer marker that is not complete yet
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
        """Open a call, or emit the marker as text if it is quoted or opens nothing here."""
        line = self._output.line
        if marker in self._start_markers.body_start_chars and not line.at_line_start():
            opening: Opening | bool | None = False
        else:
            opening = self._start_markers.find_opening(marker, self._buffer, start)
        if opening is None:
            self._wait = True
            return start
        if not isinstance(opening, Opening) or (marker[0] != "\n" and line.is_block_quote()):
            self._output.emit_text(marker)
            return end
        if marker[0] == "\n":
            self._output.emit_text("\n")
            start, marker = start + 1, marker[1:]
        return self._begin_call(opening, marker, start, self._in_text)

    def _begin_call(self, opening: Opening, marker: str, start: int, return_state: Callable[[int], int]) -> int:
        """Open the call or section at `start`, pending if it may be quoted or must come last in the reply."""
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
        """Enter a fence; in the primary dialect its opening line may itself be the start marker of a call."""
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
        """Read the start tag of a tool result: after a call the model invents a result, else it repeats one."""
        if self._sink.accepted_count:
            self.finished = True
            return len(self._buffer)
        self._output.emit_text(marker)
        self._result_end_tag = self._start_markers.result_tags[marker]
        self._state = self._in_echoed_result
        return end

    def _in_echoed_result(self, pos: int) -> int:
        end_tag = self._result_end_tag
        at = self._buffer.find(end_tag, pos)
        if at < 0:
            return self._emit_up_to(marker_set((end_tag,)).partial_start(self._buffer, pos), pos)
        self._output.emit_text(self._buffer[pos : at + len(end_tag)])
        self._state = self._in_text
        return at + len(end_tag)

    def _after_role_marker(self, pos: int) -> int:
        self._output.emit_text(self._buffer[pos:])
        return len(self._buffer)

    # The end.

    def _close_state(self, stop_reason: StopReason) -> bool:
        """End the current state; return True if that left text to parse, which ended in another state."""
        tail, self._carry = self._carry, ""
        if self.finished:
            return False
        if self._body is not None:
            return self._close_body(self._body, tail, stop_reason)
        if self._output.pending is not None:
            return self._close_pending(self._output.pending, tail, natural=stop_reason in _NATURAL_STOPS)
        if self._section is not None:
            partial = bool(tail) and self._section.dialect.section_close.startswith(tail)
            self._end_section(self._section, tail if partial else "", 0)
            tail = "" if partial else tail
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
        if self._consumed_text != "emit":
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
    """Parse a whole reply with `StreamParser.feed` and `close`; see `StreamParser` for the parameters."""
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
