"""The transform for native tools.

Rule: events pass unchanged, with three exceptions: tool names that the upstream's API does not admit are mapped there
and back; without parallel calls the reply ends after the first call; media that the upstream refuses become a line of
text.
"""

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

_replace = msgspec.structs.replace


class Native:
    """One request for an upstream with native tools."""

    constraint_key = ""
    codec = None

    def __init__(self, request: Request, *, name_rules: NameRules, media: bool = True) -> None:
        names = {tool.name for tool in request.tools}.union(*map(_names_in, request.messages))
        self._names = {name: name_rules.sanitize(name) for name in names}
        self._request = request
        self._media = media

    def prepare(self) -> Request:
        """Return the request for the upstream."""
        request = self._request
        return _replace(
            request,
            messages=tuple(self._prepare_message(message) for message in request.messages),
            tools=tuple(_replace(tool, name=self._names[tool.name]) for tool in request.tools),
            tool_choice=_replace(request.tool_choice, names=tuple(map(self._upstream_name, request.tool_choice.names))),
        )

    def stream(self) -> "NativeStream":
        """Make the event transform of one choice."""
        client_names = {upstream: name for name, upstream in self._names.items() if upstream != name}
        return NativeStream(client_names, parallel=self._request.parallel_tool_calls)

    def _upstream_name(self, name: str) -> str:
        return self._names.get(name, name)

    def _prepare_message(self, message: Message) -> Message:
        if not self._media:
            message = _replace(message, content=_without_media(message.content))
        if isinstance(message, AssistantMessage) and message.tool_calls:
            return _replace(
                message,
                tool_calls=tuple(_replace(call, name=self._upstream_name(call.name)) for call in message.tool_calls),
            )
        return (
            _replace(message, name=self._upstream_name(message.name)) if isinstance(message, ToolMessage) else message
        )


class NativeStream:
    """Transform the events of one choice. `names` maps the upstream's tool names to the client's, where they differ."""

    def __init__(self, names: dict[str, str], *, parallel: bool) -> None:
        self.finished = False
        self._names = names
        self._parallel = parallel
        self._ended = False

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; return the client's events."""
        if self._ended:
            return [event] if isinstance(event, Usage) else []
        match event:
            case ToolCallStart(tool_call_name=name) if name in self._names:
                return [_replace(event, tool_call_name=self._names[name])]
            case ToolCallEnd():
                return self._end_call(event)
            case Stop():
                self._ended = True
        return [event]

    def feed_text(self, text: str) -> list[Event]:
        """Do what `feed(Text(text))` does."""
        return [Text(text)]

    def close(self) -> list[Event]:
        """Take note that the upstream has ended; nothing was held back."""
        self._ended = True
        return []

    def _end_call(self, event: ToolCallEnd) -> list[Event]:
        name = event.tool_call_name
        ended = _replace(event, tool_call_name=self._names.get(name, name))
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
