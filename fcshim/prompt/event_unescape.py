"""Unescapes the events of a reply: markers that the model copied from the escaped prompt get their original form.

Rule: this runs after the parser, so that an unescaped marker is never parsed as a call. The chunks of a call still
concatenate to its complete arguments.
"""

from collections.abc import Iterable

import msgspec

from fcshim.events import Coercion, Event, Reasoning, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.prompt.escape import MarkerEscaper, map_strings


class StreamUnescaper:
    """Unescapes a text that arrives in chunks; only a tail that may still become an escaped marker is held back."""

    __slots__ = ("_plain_markers", "_tags")

    def __init__(self, markers: MarkerEscaper) -> None:
        self._plain_markers, self._tags = markers.unescape_passes()

    def feed(self, text: str) -> str:
        """Take the next chunk and return the text that cannot change any more."""
        return self._tags.feed(self._plain_markers.feed(text))

    def close(self) -> str:
        """End the text and return what was held back."""
        return self._tags.feed(self._plain_markers.close()) + self._tags.close()


class EventUnescaper:
    """Unescapes the events of one choice; a few characters may be held back until the next event."""

    def __init__(self, markers: MarkerEscaper) -> None:
        self._unescape = markers.unescape
        self._text = StreamUnescaper(markers)
        self._reasoning = StreamUnescaper(markers)
        self._arguments = StreamUnescaper(markers)

    def apply(self, events: Iterable[Event]) -> list[Event]:
        """Return the unescaped events."""
        return [unescaped for event in events for unescaped in self._unescaped(event)]

    def _unescaped(self, event: Event) -> list[Event]:
        match event:
            case Text() if event.text:
                return [*self._pending_reasoning(), *_texts(self._text.feed(event.text))]
            case Reasoning(signature=None):
                return [*_texts(self._text.close()), *_reasonings(self._reasoning.feed(event.text))]
            case ToolCallStart():
                name = self._unescape(event.tool_call_name)
                return [*self._pending_events(), msgspec.structs.replace(event, tool_call_name=name)]
            case ToolCallChunk():
                return self._chunk(event, self._arguments.feed(event.tool_call_arguments_chunk))
            case ToolCallEnd():
                return [*self._chunk(event, self._arguments.close()), self._unescaped_end(event)]
            case _:  # a defect's placeholder, signed reasoning (must not change), the end of the reply
                return [*self._pending_events(), event]

    def _pending_events(self) -> list[Event]:
        return [*self._pending_reasoning(), *_texts(self._text.close())]

    def _pending_reasoning(self) -> list[Event]:
        return _reasonings(self._reasoning.close())

    def _chunk(self, event: ToolCallChunk | ToolCallEnd, text: str) -> list[Event]:
        return [ToolCallChunk(event.tool_call_id, text, event.index)] if text else []

    def _unescaped_end(self, event: ToolCallEnd) -> ToolCallEnd:
        unescape, error = self._unescape, event.error
        if error is not None:
            error = msgspec.structs.replace(error, message=unescape(error.message), raw=unescape(error.raw))
        return msgspec.structs.replace(
            event,
            tool_call_name=unescape(event.tool_call_name),
            tool_call_arguments_complete=unescape(event.tool_call_arguments_complete),
            coerced=[self._unescaped_coercion(coercion) for coercion in event.coerced],
            error=error,
        )

    def _unescaped_coercion(self, coercion: Coercion) -> Coercion:
        unescape = self._unescape
        return Coercion(
            path=unescape(coercion.path),
            from_=map_strings(coercion.from_, unescape),
            to=map_strings(coercion.to, unescape),
        )


def _texts(text: str) -> list[Event]:
    return [Text(text)] if text else []


def _reasonings(text: str) -> list[Event]:
    return [Reasoning(text)] if text else []
