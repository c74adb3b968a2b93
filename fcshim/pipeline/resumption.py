"""Continuing an interrupted call: the prefill from which the model continues, and the events of its reply.

Theory of operation. A call that the token limit cut off continues after the model's text, in every dialect. A call with
a defect continues after the arguments that the client has: in dialects with JSON arguments these are written anew, in
others the model's own text is repeated up to where the last of them was read. White space at the end of a prefill is
stripped, since chat templates strip it, too; the model has to write it again. A new parser reads the prefill and then
the reply; the arguments that the client already has are compared and skipped, character by character. If they differ,
the interrupted call stands as it was.

Rule: no call is continued if the escaper changed the request, since the client's arguments may then differ from the
model's text. A backend that does not continue a last assistant message gets no prefill. The client's call keeps its id
and index, and its chunks add up. Until it ends, no other event passes.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from fcshim.constrain.call_template import MAX_CALLS, write_partial_calls
from fcshim.constrain.constraint import Constraint, constraint_for_rest
from fcshim.constrain.partial_schema import order_by_prefix
from fcshim.events import JSON, Event, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import Tool, ToolChoice
from fcshim.parse.defect import Defect
from fcshim.pipeline.attempt_filter import InterruptedCall, ParsedEvent
from fcshim.pipeline.backends import Backend, Prefill
from fcshim.pipeline.shim import Shim
from fcshim.pipeline.shim_stream import ShimStream

PREFILL = "prefill"
"""The constraint key of a request with a prefill and no constraint, to remember whether the upstream refuses that."""
_PREFILL_FIELDS: dict[Prefill, dict[str, JSON]] = {
    "plain": {},
    "continue_final_message": {"continue_final_message": True, "add_generation_prompt": False},
}


def resume_call(
    shim: Shim, reply_text: str, accepted: Sequence[tuple[str, str]], interrupted: InterruptedCall
) -> "CallResumption | None":
    """Return how the model can continue the call; None if there is no prefill for that."""
    if shim.escape.changed:
        return None
    end, before = interrupted.end, len(accepted)
    assert end.error is not None
    sent = interrupted.sent_arguments

    def after(text: str, repeated_arguments: str) -> CallResumption | None:
        return CallResumption(interrupted, text, first_call, before, repeated_arguments) if text.strip() else None

    first_call, resume_at = _replay(shim, reply_text, before + 1, len(sent))
    if end.error.kind == "truncated":
        return after(reply_text, sent)
    calls = write_partial_calls(shim.dialect, [*accepted, (end.tool_call_name, sent)])
    head = write_partial_calls(shim.dialect, [*accepted, (end.tool_call_name, "")])
    if calls is not None and head is not None:
        return after(reply_text[:first_call] + calls, calls[len(head) :])
    # The parser's events do not say where in the text an invalid value began; they do if a member is missing at "}".
    if end.error.kind == "invalid" and not end.error.raw.startswith("}"):
        return None
    return after(reply_text[:resume_at], sent)


def constraint_for_remainder(
    shim: Shim, resumption: "CallResumption", backend: Backend, *, max_calls: int
) -> Constraint | None:
    """Return the constraint under which the remainder completes a valid call; None if the backend accepts none.

    The whole reply has at most `max_calls`.
    """
    if backend.form is None:
        return None
    name, arguments = resumption.end.tool_call_name, resumption.end.tool_call_arguments_complete
    tools = [
        msgspec.structs.replace(tool, parameters=order_by_prefix(tool.parameters, arguments))
        if tool.name == name
        else tool
        for tool in shim.tools
    ]
    choice = ToolChoice("required", shim.request.tool_choice.names)
    # Without the token limit: if the remainder is cut off, the call keeps its error, so nothing is shortened to fit.
    request = msgspec.structs.replace(shim.request, tool_choice=choice, max_tokens=None)
    return constraint_for_rest(
        backend.form,
        shim.dialect,
        tools,
        request,
        resumption.calls_text,
        resumption.trailing_space,
        max_calls=max_calls,
    )


def max_calls_of_resumed(shim: Shim, reply_text: str, resumption: "CallResumption") -> int:
    """Return how many calls a reply may have whose interrupted call is continued: no more than it had.

    A reply that the token limit cut off may have gone on, unless it had to call.
    """
    error = resumption.end.error
    if error is not None and error.kind == "truncated" and shim.request.tool_choice.mode != "required":
        return MAX_CALLS
    return min(max(resumption.calls_before + 1, count_names(shim.tools, reply_text)), MAX_CALLS)


def count_names(tools: Sequence[Tool], text: str) -> int:
    """Count the names of tools in a text that stand where a call has one: there are no more calls in it."""
    names = "|".join(re.escape(tool.name) for tool in tools)
    return sum(1 for _ in re.finditer(rf"""(?:^\s*|["'“<\[(.:=])(?:{names})(?![\w-])""", text, re.MULTILINE))


def prefill_fields(backend: Backend) -> dict[str, JSON]:
    """Return the request fields that make the backend continue the last message."""
    return {} if backend.prefill is None else _PREFILL_FIELDS[backend.prefill]


def _replay(shim: Shim, reply_text: str, number: int, sent_size: int) -> tuple[int, int]:
    """Parse the reply's text again, character by character (1 us each), up to the position that the client has.

    `number` counts the interrupted call from 1; the client has `sent_size` characters of its arguments. Returns the
    positions of the start of the first call, and of the end of what the client has of the last.
    """
    stream = replace(shim, options=replace(shim.options, arguments="stream")).stream()
    started = 0
    first_call, resume_at = 0, len(reply_text)
    for at, character in enumerate(reply_text, 1):
        resume_before = resume_at if started >= number else at - 1
        for event in stream.feed(Text(character)):
            match event:
                case ToolCallStart():
                    started += 1
                    resume_at = at
                    first_call = first_call if started > 1 else _call_start(shim, reply_text, at)
                case ToolCallChunk() if started == number:
                    sent_size -= len(event.tool_call_arguments_chunk)
                    if sent_size < 0:  # the client does not have all that this character completed
                        return first_call, resume_before
                    resume_at = at
                case ToolCallEnd() if started == number:
                    return first_call, resume_before
        if started == number and sent_size <= 0:
            break
    return first_call if started else _call_start(shim, reply_text, len(reply_text)), resume_at


def _call_start(shim: Shim, reply_text: str, name_end: int) -> int:
    """Return the position of the last start marker before `name_end`; 0 if there is none, or the dialect has none."""
    return max(reply_text.rfind(shim.dialect.call.open, 0, name_end), 0) if shim.dialect.call.open else 0


class PrefilledStream:
    """The event transform of a prefilled reply. `stream` has parsed the prefill already, into `prefill_events`.

    Some servers start a new turn instead of continuing the prefill; the reply then begins with `start_marker`. Such a
    reply is parsed without the prefill by `new_stream`, or discarded if that is None, so that the two are not mixed.
    """

    def __init__(
        self,
        stream: ShimStream,
        prefill_events: list[Event],
        *,
        start_marker: str,
        new_stream: Callable[[], ShimStream] | None,
    ) -> None:
        self._stream = stream
        self._prefill_events = prefill_events
        self._start_marker = start_marker
        self._make_new_stream = new_stream
        self._undecided = ""
        self._discarding = False

    @property
    def finished(self) -> bool:
        """Whether the reply ended before the upstream did."""
        return self._discarding or self._stream.finished

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; return the client's events."""
        if isinstance(event, Text):
            return self.feed_text(event.text)
        # A call that the upstream has parsed itself does not continue the prefill, which is the beginning of a call.
        events = self._feed_undecided(begins_call=isinstance(event, ToolCallStart))
        return events if self._discarding else events + self._after_prefill(self._stream.feed(event))

    def feed_text(self, text: str) -> list[Event]:
        """Do what `feed(Text(text))` does; hold text back until it is known whether it begins with the start marker."""
        if self._discarding:
            return []
        if not self._start_marker:
            return self._after_prefill(self._stream.feed_text(text))
        self._undecided += text
        text = self._undecided.lstrip()
        is_undecided = len(text) < len(self._start_marker) and self._start_marker.startswith(text)
        return [] if is_undecided else self._feed_undecided()

    def close(self) -> list[Event]:
        """Handle the end of the upstream's reply; return the last events."""
        events = self._feed_undecided()
        if self._discarding:
            return self._stream.close("error")  # not a complete reply: the first attempt's end stands
        return events + self._after_prefill(self._stream.close())

    def _feed_undecided(self, *, begins_call: bool = False) -> list[Event]:
        """Decide whether the reply continues the prefill, and parse the text that was held back for that."""
        text, self._undecided = self._undecided, ""
        is_new_turn = bool(self._start_marker) and (begins_call or text.lstrip().startswith(self._start_marker))
        self._start_marker = ""
        if is_new_turn:
            self._prefill_events = []
            self._discarding = self._make_new_stream is None
            if self._make_new_stream is not None:
                self._stream = self._make_new_stream()
        return self._after_prefill(self._stream.feed_text(text)) if text and not self._discarding else []

    def _after_prefill(self, events: list[Event]) -> list[Event]:
        prefill_events, self._prefill_events = self._prefill_events, []
        return prefill_events + events


class CallResumption:
    """Continues a call: the prefill from which the model goes on, and the events of what it writes.

    The prefill is `text`, up to the white space at its end; its first call begins at `first_call`, and it has
    `calls_before` complete calls. `repeated_arguments`: the arguments of the interrupted call that the client has, and
    that the parser reads again in the prefill or after it. Once the call has `ended`, later events pass unchanged.
    """

    def __init__(
        self, interrupted: InterruptedCall, text: str, first_call: int, calls_before: int, repeated_arguments: str
    ) -> None:
        self.prefill = text.rstrip()
        self.trailing_space = text[len(self.prefill) :]
        """What was stripped from the prefill."""
        self.calls_text = self.prefill[first_call:]
        """The prefill from its first call on."""
        self.calls_before = calls_before
        self.end = interrupted.end
        """The failed end of the call, with its name and identity as the client knows them."""
        self.ended = False
        self.failed = False
        """Whether the reply did not repeat the arguments that the client has, or failed before it added to them.

        None of its events pass then.
        """
        self.started = interrupted.started
        """Whether the client has the start of the call."""
        self._repeated_arguments = repeated_arguments
        self._repeated_size = 0
        self._call_count = 0
        self._sent_events = False
        self._arguments = [interrupted.sent_arguments]

    def feed(self, events: Iterable[ParsedEvent]) -> list[ParsedEvent]:
        """Take events of the prefilled reply; return those that the client does not have."""
        return [result for event in events for result in ([event] if self.ended else self._feed_event(*event))]

    def restore(self, buffered: list[Event]) -> list[Event]:
        """Return the events that were buffered at the interruption; the call's end has what was sent since."""
        if not self._sent_events:
            return buffered
        (at,) = (
            at
            for at, event in enumerate(buffered)
            if isinstance(event, ToolCallEnd) and event.tool_call_id == self.end.tool_call_id
        )
        end = msgspec.structs.replace(self.end, tool_call_arguments_complete="".join(self._arguments))
        return [end, *buffered[at + 1 :]]

    def _feed_event(self, event: Event, defect: Defect | None) -> list[ParsedEvent]:
        if isinstance(event, ToolCallStart):
            self._call_count += 1
        if self.failed or self._call_count <= self.calls_before:
            return []
        match event:
            case ToolCallStart() if not self.started:
                self.started = self._sent_events = True
                self.end = msgspec.structs.replace(self.end, tool_call_name=event.tool_call_name)
                started = msgspec.structs.replace(event, tool_call_id=self.end.tool_call_id, index=self.end.index)
                return [(started, None)]
            case ToolCallChunk():
                return self._feed_chunk(event.tool_call_arguments_chunk)
            case ToolCallEnd():
                return self._end_call(event, defect)
        return []

    def _feed_chunk(self, text: str) -> list[ParsedEvent]:
        expected = self._repeated_arguments[self._repeated_size : self._repeated_size + len(text)]
        if not text.startswith(expected):
            self.failed = True
            return []
        self._repeated_size += len(expected)
        if len(expected) == len(text):
            return []
        self._sent_events = True
        self._arguments.append(text[len(expected) :])
        return [(ToolCallChunk(self.end.tool_call_id, text[len(expected) :], self.end.index), None)]

    def _end_call(self, event: ToolCallEnd, violation: Defect | None) -> list[ParsedEvent]:
        if self._repeated_size < len(self._repeated_arguments) or (event.error is not None and not self._sent_events):
            self.failed = True
            return []
        self.ended = True
        identity = {"tool_call_id": self.end.tool_call_id, "index": self.end.index}
        arguments = "".join(self._arguments) + ("" if violation is None else violation.unsent)
        return [(msgspec.structs.replace(event, **identity, tool_call_arguments_complete=arguments), violation)]
