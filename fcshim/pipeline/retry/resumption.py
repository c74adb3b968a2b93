"""Continues an interrupted call with the events of another reply.

Theory of operation. The model's turn starts with a prefill. A new parser reads the prefill and then the reply; the
arguments that the client already has are compared and skipped, character by character. If they differ, the
interrupted call stands as it was.

Rule: the client's call keeps its id and index, and its chunks add up. Until it ends, no other event passes.
"""

from collections.abc import Callable, Iterable

import msgspec

from fcshim.events import Event, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.parse.defect import Defect
from fcshim.pipeline.retry.defects import ParsedEvent
from fcshim.pipeline.retry.prefill import InterruptedCall, TurnPrefill
from fcshim.pipeline.shim import ShimStream


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
        """Take note that the upstream has ended; return the last events."""
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
    """Joins the two parts of a call. Once the call has `ended`, later events pass unchanged.

    `failed`: the reply did not repeat the arguments that the client has, or failed before it added to them. None of its
    events pass then.
    """

    def __init__(self, interrupted: InterruptedCall, prefill: TurnPrefill) -> None:
        self.ended = False
        self.failed = False
        self.accepted = False
        """Whether the call ended without error."""
        self.started = interrupted.started
        """Whether the client has the start of the call."""
        self._end = interrupted.end
        self._calls_before = prefill.calls_before
        self._repeated_arguments = prefill.repeated_arguments
        self._repeated_size = 0
        self._call_count = 0
        self._sent_events = False
        self._arguments = [interrupted.sent_arguments]

    def feed(self, events: Iterable[ParsedEvent]) -> list[ParsedEvent]:
        """Take events of the prefilled reply; return those that the client does not have."""
        return [made for event in events for made in ([event] if self.ended else self._feed_event(*event))]

    def restore(self, buffered: list[Event]) -> list[Event]:
        """Return the events that were buffered at the interruption; the call's end has what was sent since."""
        if not self._sent_events:
            return buffered
        (at,) = (
            at for at, event in enumerate(buffered) if isinstance(event, ToolCallEnd) and self._is_this_call(event)
        )
        end = msgspec.structs.replace(self._end, tool_call_arguments_complete="".join(self._arguments))
        return [end, *buffered[at + 1 :]]

    def accepted_after(self, buffered: list[Event]) -> list[Event]:
        """Return the accepted calls among the events that were buffered after the interrupted call."""
        ends = [event for event in buffered if isinstance(event, ToolCallEnd) and not self._is_this_call(event)]
        accepted = {end.tool_call_id for end in ends if end.error is None}
        calls = (ToolCallStart, ToolCallChunk, ToolCallEnd)
        return [event for event in buffered if isinstance(event, calls) and event.tool_call_id in accepted]

    def _feed_event(self, event: Event, defect: Defect | None) -> list[ParsedEvent]:
        if isinstance(event, ToolCallStart):
            self._call_count += 1
        if self.failed or self._call_count <= self._calls_before:
            return []
        match event:
            case ToolCallStart() if not self.started:
                self.started = self._sent_events = True
                self._end = msgspec.structs.replace(self._end, tool_call_name=event.tool_call_name)
                started = msgspec.structs.replace(event, tool_call_id=self._end.tool_call_id, index=self._end.index)
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
        return [(ToolCallChunk(self._end.tool_call_id, text[len(expected) :], self._end.index), None)]

    def _is_this_call(self, end: ToolCallEnd) -> bool:
        return end.tool_call_id == self._end.tool_call_id

    def _end_call(self, event: ToolCallEnd, violation: Defect | None) -> list[ParsedEvent]:
        if self._repeated_size < len(self._repeated_arguments) or (event.error is not None and not self._sent_events):
            self.failed = True
            return []
        self.ended, self.accepted = True, event.error is None
        identity = {"tool_call_id": self._end.tool_call_id, "index": self._end.index}
        arguments = "".join(self._arguments) + ("" if violation is None else violation.unsent)
        return [(msgspec.structs.replace(event, **identity, tool_call_arguments_complete=arguments), violation)]
