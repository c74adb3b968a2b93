"""A reply in the client's own characters again: what the model copied from a neutralised prompt is restored.

Rule: it comes after the parser, so that what is restored is never read as a call; a call's chunks still add up.
Neighbours: `neutralise` has the map; the shim uses this only where the prompt held something to neutralise.
"""

from collections.abc import Iterable

import msgspec

from fcshim.events import Coercion, Event, Reasoning, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.parse.defect import CallDefect
from fcshim.prompt.neutralise import Restorer, map_strings, restore


class Restoration:
    """Restores the events of one choice; a few characters may be held back until the next event."""

    def __init__(self) -> None:
        self._text = Restorer()
        self._reasoning = Restorer()
        self._arguments = Restorer()

    def apply(self, events: Iterable[Event]) -> list[Event]:
        """Give the events restored."""
        return [restored for event in events for restored in self._restored(event)]

    def _restored(self, event: Event) -> list[Event]:
        match event:
            case Text() if not isinstance(event, CallDefect):
                return [*self._reasoned(), *_texts(self._text.feed(event.text))]
            case Reasoning(signature=None):
                return [*_texts(self._text.close()), *_reasonings(self._reasoning.feed(event.text))]
            case ToolCallStart():
                name = restore(event.tool_call_name)
                return [*self._rest(), msgspec.structs.replace(event, tool_call_name=name)]
            case ToolCallChunk():
                return self._chunk(event, self._arguments.feed(event.tool_call_arguments_chunk))
            case ToolCallEnd():
                return [*self._chunk(event, self._arguments.close()), _restored_end(event)]
            case _:  # marks, signed reasoning, which must not change, and what ends the reply
                return [*self._rest(), event]

    def _rest(self) -> list[Event]:
        return [*self._reasoned(), *_texts(self._text.close())]

    def _reasoned(self) -> list[Event]:
        return _reasonings(self._reasoning.close())

    def _chunk(self, event: ToolCallChunk | ToolCallEnd, text: str) -> list[Event]:
        return [ToolCallChunk(event.tool_call_id, text, event.index)] if text else []


def _texts(text: str) -> list[Event]:
    return [Text(text)] if text else []


def _reasonings(text: str) -> list[Event]:
    return [Reasoning(text)] if text else []


def _restored_end(event: ToolCallEnd) -> ToolCallEnd:
    error = event.error
    if error is not None:
        error = msgspec.structs.replace(error, message=restore(error.message), raw=restore(error.raw))
    return msgspec.structs.replace(
        event,
        tool_call_name=restore(event.tool_call_name),
        tool_call_arguments_complete=restore(event.tool_call_arguments_complete),
        coerced=[_restored_coercion(coercion) for coercion in event.coerced],
        error=error,
    )


def _restored_coercion(coercion: Coercion) -> Coercion:
    return Coercion(
        path=restore(coercion.path), from_=map_strings(coercion.from_, restore), to=map_strings(coercion.to, restore)
    )
