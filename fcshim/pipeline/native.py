"""The transform for native tools.

Rule: events pass unchanged, with four exceptions: tool names that the upstream's API does not admit are mapped there
and back; without parallel calls the reply ends after the first call; media that the upstream refuses become a line of
text; stop sequences that it refuses are searched here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from fcshim.codecs.upstreams import NameRules
from fcshim.events import Event, Stop, Text, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import (
    AssistantMessage,
    Content,
    MediaPart,
    Message,
    Request,
    ToolMessage,
    placeholder,
)
from fcshim.pipeline.stop_sequences import StopSearch

_replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class Native:
    """One request for an upstream with native tools. Made by `prepare_native`."""

    prepared: Request
    client_names: Mapping[str, str]
    """The client's tool names by the upstream's, where they differ."""
    searched_stops: tuple[str, ...] = ()
    """Stop sequences that the upstream does not search."""

    def stream(self) -> "NativeStream":
        """Make the event transform of one choice."""
        stops = StopSearch(self.searched_stops) if self.searched_stops else None
        return NativeStream(self.client_names, parallel=self.prepared.allows_parallel_calls, stops=stops)


def prepare_native(
    request: Request, *, name_rules: NameRules, media: bool = True, searched_stops: tuple[str, ...] = ()
) -> Native:
    """Write the tool names as the upstream admits them; without `media`, replace media by a line of text."""
    used = {tool.name for tool in request.tools}.union(*map(_names_in, request.messages))
    names = {name: name_rules.sanitize(name) for name in used}
    choice = request.tool_choice
    prepared = _replace(
        request,
        messages=tuple(_prepare_message(message, names, media=media) for message in request.messages),
        tools=tuple(_replace(tool, name=names[tool.name]) for tool in request.tools),
        tool_choice=_replace(choice, names=tuple(names.get(name, name) for name in choice.names)),
    )
    client_names = {upstream: name for name, upstream in names.items() if upstream != name}
    return Native(prepared, client_names, searched_stops)


def _prepare_message(message: Message, names: Mapping[str, str], *, media: bool) -> Message:
    if not media:
        message = _replace(message, content=_without_media(message.content))
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = tuple(_replace(call, name=names.get(call.name, call.name)) for call in message.tool_calls)
        return _replace(message, tool_calls=calls)
    if isinstance(message, ToolMessage):
        return _replace(message, name=names.get(message.name, message.name))
    return message


class NativeStream:
    """Transform the events of one choice. `names` maps the upstream's tool names to the client's, where they differ."""

    def __init__(self, names: Mapping[str, str], *, parallel: bool, stops: StopSearch | None = None) -> None:
        self.finished = False
        self._stops = stops
        self._called = False
        self._names = names
        self._parallel = parallel
        self._ended = False

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; return the client's events."""
        if self._ended:
            return [event] if isinstance(event, Usage) else []
        match event:
            case Text():
                return self.feed_text(event.text)
            case ToolCallStart(tool_call_name=name):
                return [*self._held_text(), _replace(event, tool_call_name=self._names.get(name, name))]
            case ToolCallEnd():
                return self._end_call(event)
            case Stop():
                return [*self.close(), event]
        return [event]

    def feed_text(self, text: str) -> list[Event]:
        """Do what `feed(Text(text))` does."""
        return [Text(text)] if self._stops is None else self._search_stops(self._stops, text)

    def close(self) -> list[Event]:
        """Handle the end of the upstream's reply; return the text that was held back."""
        events, self._ended = self._held_text(), True
        return events

    def _search_stops(self, stops: StopSearch, text: str) -> list[Event]:
        events: list[Event] = [Text(found)] if (found := stops.feed(text)) else []
        if stops.found:
            self.finished = self._ended = True
            events.append(Stop("tool_use" if self._called else "stop_sequence"))
        return events

    def _held_text(self) -> list[Event]:
        held = "" if self._stops is None or self._ended else self._stops.flush()
        return [Text(held)] if held else []

    def _end_call(self, event: ToolCallEnd) -> list[Event]:
        name = event.tool_call_name
        ended = _replace(event, tool_call_name=self._names.get(name, name))
        self._called = self._called or event.error is None
        if self._parallel or event.error is not None:
            return [ended]
        self.finished = self._ended = True
        return [ended, Stop("tool_use")]


def _names_in(message: Message) -> set[str]:
    match message:
        case AssistantMessage():
            return {call.name for call in message.tool_calls}
        case ToolMessage(name=name) if name:
            return {name}
    return set()


def _without_media(content: Content) -> Content:
    return tuple(placeholder(part) if isinstance(part, MediaPart) else part for part in content)
