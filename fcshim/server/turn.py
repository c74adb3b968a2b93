"""What a client sees of a reply for which the model was asked several times, because it called tools that run here.

Rule: calls of our own tools never reach the client; the text of all rounds does, an empty line between two, and so do
calls of the client's tools, counted on. One `Usage`, the sum of all, and one `Stop` end the reply.
Neighbours: `course` answers the calls of each round; `exchange` makes the events of a round.
"""

from collections.abc import Collection
from typing import TypeVar

import msgspec

from fcshim.agent.loop import meant_calls
from fcshim.errors import UpstreamError
from fcshim.events import Error, Event, Reasoning, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.exchange import Batch
from fcshim.messages import AssistantMessage, TextPart, ToolCall
from fcshim.reply import Reply, fold, total_usage

_APART = "\n\n"

_OfCall = TypeVar("_OfCall", ToolCallStart, ToolCallChunk, ToolCallEnd)


class Turn:
    """One reply, of one choice. `ours` are the names of the tools that run here.

    `over` becomes true with the stop, or the error, that the client sees. `max_reply`: characters of all rounds
    together; they are kept, to be told to the model again.
    """

    def __init__(self, ours: Collection[str], *, max_reply: int) -> None:
        self.over = False
        self.reply = Reply()
        """What the model said in the last round that ended."""
        self.ours: tuple[ToolCallEnd, ...] = ()
        """The calls of that round that are to be answered here."""
        self.mixed = False
        """Whether the client has calls of that round to answer, too."""
        self._names = frozenset(ours)
        self._room = max_reply
        self._round: list[Event] = []
        self._usages: list[Usage | None] = []
        self._hidden: set[str] = set()  # ids of calls
        self._numbers: dict[str, int] = {}  # of the client's calls, by id
        self._begun = 0  # how many of them there were
        self._shown: list[str] = []
        self._calls: list[ToolCall] = []
        self._parted = True  # nothing needs to stand before the next text

    def feed(self, batch: Batch) -> Batch:
        """Take the events of one upstream read; give those that the client sees.

        The stop of a round with calls of ours is kept back. Raises `UpstreamError` beyond `max_reply`.
        """
        return [(0, seen) for _, event in batch for seen in self._seen(event)]

    @property
    def visible(self) -> AssistantMessage:
        """The turn as the client knows it, and will send it back."""
        text = "".join(self._shown)
        return AssistantMessage((TextPart(text),) if text else (), tuple(self._calls))

    def next_round(self) -> None:
        """Begin another round."""
        self._round = []
        self._hidden = set()  # some upstreams begin to count their calls anew
        self._parted = not self._shown or self._shown[-1][-1:].isspace()

    def close(self) -> Batch:
        """End the reply: give usage and stop."""
        self.over = True
        usage = total_usage(self._usages)
        stop = Stop(stop_reason=self.reply.stop_reason or "complete")
        return [(0, stop)] if usage is None else [(0, usage), (0, stop)]

    def _seen(self, event: Event) -> list[Event]:
        match event:
            case Text():
                return [self._text(event)]
            case Reasoning():
                self._keep(event, event.text)
                return [event]
            case ToolCallStart() | ToolCallChunk() | ToolCallEnd():
                return self._of_call(event)
            case Usage():
                self._keep(event)
                return []
            case Stop():
                return self._stop(event)
            case Error():
                self.over = True
                return [event]

    def _of_call(self, event: ToolCallStart | ToolCallChunk | ToolCallEnd) -> list[Event]:
        match event:
            case ToolCallStart():
                return self._call_begins(event)
            case ToolCallChunk():
                self._count(event.tool_call_arguments_chunk)
                return [] if event.tool_call_id in self._hidden else [self._numbered(event)]
            case ToolCallEnd():
                return self._call_ends(event)

    def _text(self, event: Text) -> Text:
        self._keep(event, event.text)
        if not self._parted and not event.text[:1].isspace():
            event = Text(_APART + event.text)
        self._parted = True
        self._shown.append(event.text)
        return event

    def _call_begins(self, event: ToolCallStart) -> list[Event]:
        if event.tool_call_name in self._names:
            self._hidden.add(event.tool_call_id)
            return []
        self._numbers[event.tool_call_id] = self._begun
        self._begun += 1
        return [self._numbered(event)]

    def _call_ends(self, event: ToolCallEnd) -> list[Event]:
        self._keep(event)
        if event.tool_call_id in self._hidden:
            return []
        if event.error is None:
            arguments = event.tool_call_arguments_complete or "{}"
            self._calls.append(ToolCall(event.tool_call_id, event.tool_call_name, arguments))
        return [self._numbered(event)]

    def _stop(self, event: Stop) -> list[Event]:
        self.reply = fold([*self._round, event])
        self._usages.append(self.reply.usage)
        calls = meant_calls(self.reply)
        self.ours = tuple(call for call in calls if call.tool_call_id in self._hidden)
        self.mixed = any(call.error is None and call not in self.ours for call in calls)
        return [] if self.ours else [made for _, made in self.close()]

    def _numbered(self, event: _OfCall) -> _OfCall:
        number = self._numbers[event.tool_call_id]
        return event if event.index == number else msgspec.structs.replace(event, index=number)

    def _keep(self, event: Event, text: str = "") -> None:
        self._round.append(event)
        self._count(text)

    def _count(self, text: str) -> None:
        self._room -= len(text)
        if self._room < 0:
            raise UpstreamError("the upstream's reply is longer than the limit for a reply with tools that run here")
