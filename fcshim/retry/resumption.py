"""A call that has only begun, ended by another reply that goes on from there.

Theory of operation. The model's turn is begun for it (prefill). A new parser reads that beginning, too, and then what
follows; of the call's arguments, what the client has is passed over, character by character. Where something else
comes instead, the call stays as it was.

Rule: the client's call keeps its id, and its chunks add up; what goes on belongs to it alone until it ends.
Neighbours: `beginning` says where a call goes on, `tries` asks for it.
"""

from collections.abc import Callable, Iterable

import msgspec

from fcshim.events import Event, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.parse.sink import InvalidCallEnd
from fcshim.retry.prefill import InterruptedCall, TurnPrefill
from fcshim.shim import ShimStream


class PrefilledStream:
    """The way back of a reply that was begun: its beginning is read before it.

    Some servers take a new turn instead of going on, which shows where the reply begins with `opener`. It is read by a
    stream of its own then (`anew`), or not at all: what was begun would otherwise be mixed with it.
    """

    def __init__(
        self, stream: ShimStream, prefill: str, *, start_marker: str, new_stream: Callable[[], ShimStream] | None
    ) -> None:
        self._stream = stream
        self._prefill_events = stream.feed_text(prefill)
        self._start_marker = start_marker
        self._make_new_stream = new_stream
        self._undecided = ""
        self._discarding = False

    @property
    def finished(self) -> bool:
        """Whether the reply ended before the upstream did."""
        return self._discarding or self._stream.finished

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; give the client's."""
        if isinstance(event, Text):
            return self.feed_text(event.text)
        waited = self._feed_undecided()
        return waited if self._discarding else waited + self._after_prefill(self._stream.feed(event))

    def feed_text(self, text: str) -> list[Event]:
        """Take the upstream's next piece of text."""
        if self._discarding:
            return []
        if not self._start_marker:
            return self._after_prefill(self._stream.feed_text(text))
        self._undecided += text
        said = self._undecided.lstrip()
        undecided = len(said) < len(self._start_marker) and self._start_marker.startswith(said)
        return [] if undecided else self._feed_undecided()

    def close(self) -> list[Event]:
        """The upstream has ended; give what is held back."""
        waited = self._feed_undecided()
        if self._discarding:
            return self._stream.close("error")
        return waited + self._after_prefill(self._stream.close())

    def _feed_undecided(self) -> list[Event]:
        """Read what waited until it was known whether the reply goes on."""
        text, self._undecided = self._undecided, ""
        is_new = bool(self._start_marker) and text.lstrip().startswith(self._start_marker)
        self._start_marker = ""
        if is_new:
            self._prefill_events = []
            self._discarding = self._make_new_stream is None
            if self._make_new_stream is not None:
                self._stream = self._make_new_stream()
        return self._after_prefill(self._stream.feed_text(text)) if text and not self._discarding else []

    def _after_prefill(self, events: list[Event]) -> list[Event]:
        first, self._prefill_events = self._prefill_events, []
        return first + events


class CallResumption:
    """Makes one call of its two parts; `over` when it has ended, and what follows passes as it is.

    `lost` when what the client has of it did not come again, or nothing more: then nothing of this reply belongs to it.
    """

    def __init__(self, interrupted: InterruptedCall, prefill: TurnPrefill) -> None:
        self.ended = False
        self.failed = False
        self.accepted = False
        """Whether it ended without error."""
        self.started = interrupted.started
        """Whether the client has its start."""
        self._end = interrupted.end
        self._calls_before = prefill.calls_before
        self._repeated_arguments = prefill.repeated_arguments
        self._repeated_size = 0
        self._call_count = 0
        self._sent_events = False
        self._arguments = [interrupted.sent_arguments]

    def feed(self, events: Iterable[Event]) -> list[Event]:
        """Give what of the events is new to the client."""
        return [new for event in events for new in ([event] if self.ended else self._feed_event(event))]

    def restore(self, buffered: list[Event]) -> list[Event]:
        """Give what was held when the call broke off; what the client has of it by now belongs to it."""
        if not self._sent_events:
            return buffered
        (at,) = (
            at for at, event in enumerate(buffered) if isinstance(event, ToolCallEnd) and self._is_this_call(event)
        )
        end = msgspec.structs.replace(self._end, tool_call_arguments_complete="".join(self._arguments))
        return [end, *buffered[at + 1 :]]

    def accepted_after(self, buffered: list[Event]) -> list[Event]:
        """Give the good calls that were held behind the call when it broke off."""
        ends = [event for event in buffered if isinstance(event, ToolCallEnd) and not self._is_this_call(event)]
        good = {end.tool_call_id for end in ends if end.error is None}
        calls = (ToolCallStart, ToolCallChunk, ToolCallEnd)
        return [event for event in buffered if isinstance(event, calls) and event.tool_call_id in good]

    def _feed_event(self, event: Event) -> list[Event]:
        if isinstance(event, ToolCallStart):
            self._call_count += 1
        if self.failed or self._call_count <= self._calls_before:
            return []
        match event:
            case ToolCallStart() if not self.started:
                self.started = self._sent_events = True
                self._end = msgspec.structs.replace(self._end, tool_call_name=event.tool_call_name)
                return [msgspec.structs.replace(event, tool_call_id=self._end.tool_call_id, index=self._end.index)]
            case ToolCallChunk():
                return self._feed_chunk(event.tool_call_arguments_chunk)
            case ToolCallEnd():
                return self._end_call(event)
        return []

    def _feed_chunk(self, text: str) -> list[Event]:
        again = self._repeated_arguments[self._repeated_size : self._repeated_size + len(text)]
        if not text.startswith(again):
            self.failed = True
            return []
        self._repeated_size += len(again)
        if len(again) == len(text):
            return []
        self._sent_events = True
        self._arguments.append(text[len(again) :])
        return [ToolCallChunk(self._end.tool_call_id, text[len(again) :], self._end.index)]

    def _is_this_call(self, end: ToolCallEnd) -> bool:
        return end.tool_call_id == self._end.tool_call_id

    def _end_call(self, event: ToolCallEnd) -> list[Event]:
        if self._repeated_size < len(self._repeated_arguments) or (event.error is not None and not self._sent_events):
            self.failed = True
            return []
        self.ended, self.accepted = True, event.error is None
        same = {"tool_call_id": self._end.tool_call_id, "index": self._end.index}
        arguments = "".join(self._arguments) + (event.unsent if isinstance(event, InvalidCallEnd) else "")
        return [msgspec.structs.replace(event, **same, tool_call_arguments_complete=arguments)]
