"""The streaming parser: model text in, events out.

Theory of operation. A tag machine: each state is one method, which takes a position in the current text and returns the
next one; `Cursor.wait` asks for more text after the remaining few characters. The methods stand in the modules of
`machine`; what a state needs of another module it has as an object.

    state                module          position                                     left by
    BEFORE_ANSWER        text            the start of the reply, or after reasoning   any character; a reasoning tag
    IN_REASONING         text            a reasoning block                            its end tag
    IN_TEXT              text            the answer                                   a marker; a fence line
    IN_CALL              calls           a call's body, read by the body reader       the end of the body
    AFTER_CALL           sections        after a call                                 anything but another end marker
    IN_SECTION           sections        between the calls of a section               a call; its end; anything else
    IN_FENCE             code            a code fence whose content is text           its closing line
    IN_FENCE_OF_CALLS    pending_calls   a fence with only calls so far               anything else; its closing line
    AFTER_PENDING_CALLS  pending_calls   after pending calls that must come last      anything else
    AFTER_CALL_IN_SPAN   pending_calls   after a call in an open span or quote        its closing mark; a blank line
    IN_ECHOED_RESULT     text            a tool result that the model repeats         its end tag
    AFTER_ROLE_MARKER    text            after a role marker: all of it is text       nothing
    FINISHED             text            in a tool result that the model invents      nothing

Calls that may be quoted stay pending (`Output`) until the context decides.

Rule: no text is searched twice; only a tail that is a proper prefix of a marker waits.
"""

from collections.abc import Callable, Mapping, Sequence

from fcshim.events import JSON, Event, Stop, StopReason, Text, id_source
from fcshim.messages import Tool, as_tools
from fcshim.parse.body import NATURAL_STOPS, READING, BodyReader
from fcshim.parse.defect import ReportDefect
from fcshim.parse.dialects import AUTO, FUNCTION_CALL, Dialect, get_dialect
from fcshim.parse.documents import Documents
from fcshim.parse.limits import DEFAULT_LIMITS, Limits
from fcshim.parse.machine.calls import CallStates
from fcshim.parse.machine.code import CodeStates
from fcshim.parse.machine.known_markers import compile_start_markers
from fcshim.parse.machine.openings import OpeningFinder
from fcshim.parse.machine.parts import MachineParts
from fcshim.parse.machine.pending_calls import PendingCallStates
from fcshim.parse.machine.reports import DefectReports
from fcshim.parse.machine.sections import SectionStates
from fcshim.parse.machine.state import Cursor, Output, State, SurrogateJoiner
from fcshim.parse.machine.text import ReasoningPolicy, ReasoningStates, TextStates
from fcshim.parse.scanner import MoreNeeded
from fcshim.parse.sink import ArgumentsMode, CallSink

_IN_TEXT = State.IN_TEXT
_MAX_PIECE = 4_096
"""Characters that are parsed at once: a reader may look ahead to the end of a piece, and each call has a reader."""


class StreamParser:
    """Finds the calls in one reply while it streams.

    `dialect` is a name, a `Dialect`, or `"auto"`: all dialects of the table at once. `tools` are the offered tools
    (`Tool` objects or OpenAI dicts), or a mapping of them by name, which is not checked again; None admits any name.
    With `rescue`, calls to offered tools in any other dialect are accepted too. `reasoning` decides about a call inside
    reasoning: `ignore` it, `recover` it if the reasoning never ends and the call comes last, or `promote` it.
    `open_reasoning_tag` is the start tag (`<think>`) that the prompt ends with. `arguments` selects how arguments are
    sent: `stream` as the model writes them, `validated` whole.
    Those of strict tools are always validated; they stream if `schema_enforced` says that a grammar constrains the
    model to valid calls.
    A call without tags whose text stands in one of the `documents` of the conversation is text. With `calls_last` this
    holds for calls in tags, too, and any call counts only if nothing but calls follows it: for prompts in which nobody
    has escaped the tags.
    `on_defect` receives every rejected or invalid call, before its events are returned, and `on_copy` results and
    instructions that the model copies from the prompt. `new_id` creates the ids of
    calls. Raises `ConfigError` for an unknown dialect or reasoning tag, `RequestError` for unusable tools, and nothing
    for any text.
    """

    def __init__(  # noqa: PLR0913 # settings with defaults
        self,
        dialect: str | Dialect = "function_call",
        tools: Sequence[Tool | dict[str, JSON]] | Mapping[str, Tool] | None = None,
        *,
        rescue: bool = False,
        reasoning: ReasoningPolicy = "ignore",
        open_reasoning_tag: str = "",
        arguments: ArgumentsMode = "stream",
        schema_enforced: bool = False,
        new_id: Callable[[], str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        on_defect: ReportDefect | None = None,
        on_copy: ReportDefect | None = None,
        documents: Documents | None = None,
        calls_last: bool = False,
    ) -> None:
        if tools is not None and not isinstance(tools, Mapping):
            tools = {tool.name: tool for tool in as_tools(tools)}
        offered = tools
        primary = None if dialect == AUTO else get_dialect(dialect).for_tools(offered or ())
        others = primary is None or (rescue and offered is not None)
        start_markers = compile_start_markers(primary, others=others, allow_bare=offered is not None)
        self.finished = False
        """True once the model begins to invent a tool's result: the remainder is dropped, upstream may be cancelled."""
        self._sink = sink = CallSink(offered, arguments, new_id or id_source(), limits.arguments, on_defect)
        self._cursor = cursor = Cursor()
        self._output = output = Output(cursor, sink, documents, on_copy)
        self._line = output.line
        self._surrogates = SurrogateJoiner()
        self._direct_reader: BodyReader | None = None
        """The reader of a started call, if the next ASCII piece may go to it directly."""
        openings = OpeningFinder(start_markers, sink, any_body=others and offered is not None)
        reports = DefectReports(cursor, output, openings, primary, on_defect)
        parts = MachineParts(cursor, output, limits, primary, start_markers, openings, reports)
        self._code = CodeStates(parts)
        self._calls = CallStates(parts, schema_enforced=schema_enforced, calls_last=calls_last)
        self._sections = SectionStates(parts, self._calls)
        self._pending_calls = PendingCallStates(parts, self._code, self._calls, fenced_calls=offered is not None)
        self._reasoning = ReasoningStates(parts, self._calls, reasoning)
        self._text = TextStates(parts, self._code, self._calls, self._pending_calls)
        self._states = self._state_table()
        if open_reasoning_tag:
            self._reasoning.enter_with(open_reasoning_tag)

    def _state_table(self) -> Mapping[State, Callable[[int], int]]:
        """Return the method of each state in which text is read."""
        return {
            State.BEFORE_ANSWER: self._reasoning.before_answer,
            State.IN_REASONING: self._reasoning.in_reasoning,
            State.IN_TEXT: self._text.in_text,
            State.IN_CALL: self._calls.in_call,
            State.AFTER_CALL: self._sections.after_call,
            State.IN_SECTION: self._sections.in_section,
            State.IN_FENCE: self._code.in_fence,
            State.IN_FENCE_OF_CALLS: self._pending_calls.in_fence_of_calls,
            State.AFTER_PENDING_CALLS: self._pending_calls.after_pending_calls,
            State.AFTER_CALL_IN_SPAN: self._pending_calls.after_call_in_span,
            State.IN_ECHOED_RESULT: self._text.in_echoed_result,
            State.AFTER_ROLE_MARKER: self._text.after_role_marker,
        }

    def feed(self, text: str) -> list[Event]:
        """Parse the next piece of text; return the events it completes."""
        if len(text) > _MAX_PIECE:
            parts = (text[at : at + _MAX_PIECE] for at in range(0, len(text), _MAX_PIECE))
            return [event for part in parts for event in self.feed(part)]
        body = self._direct_reader
        if body is None or not text.isascii():
            if self.finished:
                return []
            if self._surrogates.pending or not text.isascii():
                text = self._surrogates.feed(text)
                self._update_direct_reader()
                body = self._direct_reader
            if body is None:
                return self._feed_text(text)
        # Fast path: inside a started call the consumed text need not be kept, because it can no longer become text.
        events: list[Event] = []
        self._sink.events = events
        cursor = self._cursor
        if cursor.carry:
            text = cursor.carry + text
        elif body.in_content and body.send_string_piece(text):
            return events
        pos = body.feed(text, 0)
        if body.status is READING:
            cursor.carry = text[pos:]
            return events
        self._output.events = events
        cursor.buffer, cursor.carry = text, ""
        pos = self._calls.apply_status(body, pos)
        self._run(cursor.buffer, pos)  # which may begin with text that the body has left
        return self._end_piece()

    def _feed_text(self, text: str) -> list[Event]:
        """Parse a piece outside a call, or in a call that may still be text."""
        cursor = self._cursor
        if cursor.carry:
            text = cursor.take_carry() + text
        if cursor.state is _IN_TEXT:
            end = self._text.find_plain_end(text)
            if end >= 0:
                if end < len(text):
                    text, cursor.carry = text[:end], text[end:]
                if not text:
                    return []
                self._line.add(text)
                return [Text(text)]
        self._output.begin()
        self._run(text)
        return self._end_piece()

    def _run(self, text: str, pos: int = 0) -> None:
        """Run the states from a position in the text on, until they need more text."""
        cursor, states = self._cursor, self._states
        cursor.buffer, cursor.wait = text, False
        try:
            while pos < len(cursor.buffer) and cursor.state is not State.FINISHED and not cursor.wait:
                pos = states[cursor.state](pos)
        except MoreNeeded:
            cursor.wait = True
        if cursor.wait:
            cursor.carry = cursor.buffer[pos:]
        cursor.buffer = ""

    def _end_piece(self) -> list[Event]:
        self.finished = self._cursor.state is State.FINISHED
        self._update_direct_reader()
        return self._output.finish()

    def _update_direct_reader(self) -> None:
        self._direct_reader = None if self._surrogates.pending else self._calls.direct_reader()

    def begin_call(self, start_marker: str) -> list[Event]:
        """End the text so far, whatever it was in, and read what follows as a call in the dialect `function_call`.

        For a call that the upstream has found itself; `start_marker` is its text so far. Return the events of the text.
        """
        if self.finished:
            return []
        self._output.begin()
        if self._cursor.state is State.AFTER_ROLE_MARKER:
            self._output.emit_text(start_marker)
            return self._end_piece()
        self._end_text("complete")
        self._output.flush()
        self._output.in_reasoning = False
        self._calls.open_body(FUNCTION_CALL, start_marker, State.IN_TEXT)
        return self._end_piece()

    def close(self, stop_reason: StopReason = "complete") -> list[Event]:
        """End the reply; return the remaining events and one `Stop`: `tool_use` if it ended by itself with calls."""
        self._output.begin()
        self._end_text(stop_reason)
        events = self._output.finish()
        if stop_reason in NATURAL_STOPS:
            stop_reason = (
                "tool_use" if self._sink.accepted_count else "complete" if stop_reason == "tool_use" else stop_reason
            )
        events.append(Stop(stop_reason))
        self._cursor.state = State.FINISHED
        self.finished = True
        self._direct_reader = None
        return events

    def _end_text(self, stop_reason: StopReason) -> None:
        replacement = self._surrogates.close()
        if replacement and not self.finished:
            self._run(self._cursor.take_carry() + replacement)
        while self._close_state(stop_reason):
            pass

    def _close_state(self, stop_reason: StopReason) -> bool:
        """End the current state; return True if that left text to parse, which ended in another state."""
        body, pending = self._calls.body, self._output.pending
        tail = self._cursor.take_carry()
        if self._cursor.state is State.FINISHED:
            return False
        if body is not None:
            self._run(self._calls.close_body(body, tail, stop_reason))
            return self._output.pending is not None or self._calls.body is not None or bool(self._cursor.carry)
        if pending is not None:
            tail = self._pending_calls.close(pending, tail, natural=stop_reason in NATURAL_STOPS)
            self._run(tail)
            return pending.kind == "span"
        self._output.emit_text(self._sections.close(tail, stop_reason))
        return False


def parse(
    text: str,
    dialect: str | Dialect = "function_call",
    tools: Sequence[Tool | dict[str, JSON]] | None = None,
    *,
    stop_reason: StopReason = "complete",
    rescue: bool = False,
    reasoning: ReasoningPolicy = "ignore",
    open_reasoning_tag: str = "",
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
        open_reasoning_tag=open_reasoning_tag,
        arguments=arguments,
        new_id=new_id,
        limits=limits,
    )
    return parser.feed(text) + parser.close(stop_reason)
