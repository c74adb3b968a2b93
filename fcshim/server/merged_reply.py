"""Merges the rounds of a reply with server tools into the one reply that the client sees.

Rule: calls of server tools are hidden from the client. The text of all rounds is visible, separated by an empty line,
and so are calls of the client's tools, renumbered. The reply ends with one `Usage`, the sum of all, and one `Stop`.
"""

from collections.abc import Collection
from typing import TypeVar

import msgspec

from fcshim.agent.loop import executable_calls
from fcshim.errors import UpstreamError
from fcshim.events import (
    Error,
    Event,
    Reasoning,
    Stop,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    WebToolUse,
    total_usage,
)
from fcshim.messages import AssistantMessage, TextPart, ToolCall
from fcshim.pipeline.attempt import Batch
from fcshim.pipeline.response import event_bytes
from fcshim.reply import Reply, fold

_SEPARATOR = "\n\n"

_CallEventT = TypeVar("_CallEventT", ToolCallStart, ToolCallChunk, ToolCallEnd)


class MergedReply:
    """One reply with one choice. `server_tools` are the names of the tools that run in this proxy.

    `finished` becomes true with the stop or error event that the client gets. `max_reply` limits the memory of all
    rounds together, in bytes, which are kept because the next round sends them to the model again.
    """

    def __init__(self, server_tools: Collection[str], *, max_reply: int) -> None:
        self.finished = False
        self.last_round = Reply()
        """The folded reply of the last round that ended."""
        self._server_tools = frozenset(server_tools)
        self._bytes_left = max_reply
        self._round_events: list[Event] = []
        self._usages: list[Usage | None] = []
        self._hidden_ids: set[str] = set()  # of the server calls of this round
        self._client_indexes: dict[str, int] = {}  # of the client's calls, by call id
        self._client_call_count = 0
        self._visible_text: list[str] = []
        self._visible_calls: list[ToolCall] = []
        self._is_separated = True  # the next text needs no separator

    def feed(self, batch: Batch) -> Batch:
        """Take the events of one upstream read; return those for the client.

        The stop event of a round with server calls is held back. Raises `UpstreamError` above `max_reply`.
        """
        return [(0, visible) for _, event in batch for visible in self._visible_events(event)]

    @property
    def visible_message(self) -> AssistantMessage:
        """The turn as the client sees it and will send it back."""
        text = "".join(self._visible_text)
        return AssistantMessage((TextPart(text),) if text else (), tuple(self._visible_calls))

    def start_round(self) -> None:
        """Start the next round."""
        self._round_events = []
        self._hidden_ids = set()  # some upstreams reuse call ids in the next reply
        self._is_separated = not self._visible_text or self._visible_text[-1][-1:].isspace()

    def close(self) -> Batch:
        """End the reply: return the usage and the stop event."""
        self.finished = True
        usage = total_usage(self._usages)
        stop = Stop(stop_reason=self.last_round.stop_reason or "complete")
        return [(0, stop)] if usage is None else [(0, usage), (0, stop)]

    def _visible_events(self, event: Event) -> list[Event]:
        match event:
            case Text():
                return [self._take_text(event)]
            case Reasoning():
                self._record(event)
                return [event]
            case ToolCallStart() | ToolCallChunk() | ToolCallEnd():
                return self._take_call(event)
            case Usage():
                self._record(event)
                return []
            case Stop():
                return self._end_round(event)
            case WebToolUse() | Error():
                self.finished = self.finished or isinstance(event, Error)
                return [event]

    def _take_call(self, event: ToolCallStart | ToolCallChunk | ToolCallEnd) -> list[Event]:
        match event:
            case ToolCallStart():
                return self._start_call(event)
            case ToolCallChunk():
                self._count(event)
                return [] if event.tool_call_id in self._hidden_ids else [self._with_client_index(event)]
            case ToolCallEnd():
                return self._end_call(event)

    def _take_text(self, event: Text) -> Text:
        self._record(event)
        if not self._is_separated and not event.text[:1].isspace():
            event = Text(_SEPARATOR + event.text)
        self._is_separated = True
        self._visible_text.append(event.text)
        return event

    def _start_call(self, event: ToolCallStart) -> list[Event]:
        if event.tool_call_name in self._server_tools:
            self._hidden_ids.add(event.tool_call_id)
            return []
        self._client_indexes[event.tool_call_id] = self._client_call_count
        self._client_call_count += 1
        return [self._with_client_index(event)]

    def _end_call(self, event: ToolCallEnd) -> list[Event]:
        self._record(event)
        if event.tool_call_id in self._hidden_ids:
            return []
        if event.error is None:
            arguments = event.tool_call_arguments_complete or "{}"
            self._visible_calls.append(ToolCall(event.tool_call_id, event.tool_call_name, arguments))
        return [self._with_client_index(event)]

    def _end_round(self, event: Stop) -> list[Event]:
        self.last_round = fold([*self._round_events, event])
        self._usages.append(self.last_round.usage)
        if any(call.tool_call_id in self._hidden_ids for call in executable_calls(self.last_round)):
            return []
        return [final for _, final in self.close()]

    def _with_client_index(self, event: _CallEventT) -> _CallEventT:
        number = self._client_indexes[event.tool_call_id]
        return event if event.index == number else msgspec.structs.replace(event, index=number)

    def _record(self, event: Event) -> None:
        self._round_events.append(event)
        self._count(event)

    def _count(self, event: Event) -> None:
        self._bytes_left -= event_bytes(event)
        if self._bytes_left < 0:
            raise UpstreamError("the upstream's reply is longer than the limit for a reply with tools that run here")
