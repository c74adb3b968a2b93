"""The calls of one reply, across its attempts: their indexes, and which of them the client may execute.

Rule: the client sees indexes from 0 without a gap, whichever calls were held back.
"""

import json
from collections.abc import Iterable

import msgspec

from fcshim.events import Event, ToolCallChunk, ToolCallEnd, ToolCallStart


class ReplyCalls:
    """The calls that the client has; `accepted` are those that ended without error, each a name and arguments."""

    def __init__(self) -> None:
        self.accepted: list[tuple[str, str]] = []
        self.indexes_unchanged = True
        """True as long as every call has the index that its parser gave it."""
        self._indexes: dict[str, int] = {}

    def renumber(self, events: Iterable[Event]) -> list[Event]:
        """Return the events with the client's indexes."""
        return [self._renumber_event(event) for event in events]

    def accept(self, end: ToolCallEnd) -> None:
        """Record a call that the client may execute."""
        self.accepted.append((end.tool_call_name, end.tool_call_arguments_complete))

    def repeats(self, end: ToolCallEnd, count: int) -> bool:
        """Return whether a call equals one of the first `count` accepted ones, which the model must not repeat."""
        arguments = _canonical(end.tool_call_arguments_complete)
        return any(end.tool_call_name == name and arguments == _canonical(text) for name, text in self.accepted[:count])

    def _renumber_event(self, event: Event) -> Event:
        if not isinstance(event, ToolCallStart | ToolCallChunk | ToolCallEnd):
            return event
        index = self._indexes.setdefault(event.tool_call_id, len(self._indexes))
        if index == event.index:
            return event
        self.indexes_unchanged = False
        return msgspec.structs.replace(event, index=index)


def _canonical(arguments: str) -> str:
    """Return a text that is equal for equal JSON values."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
