"""The messages of a request: every role and form of content becomes a `Message`.

Rule: the order stays; ids that the legacy form lacks are made from the position, so that the same history always gives
the same prompt. A tool result that answers no call of the history is kept: upstreams read text, and it harms nobody.
Neighbours: `request` calls this; `outgoing` writes messages again.
"""

import msgspec

from fcshim.codecs.fields import expect, field_error, read_field
from fcshim.codecs.openai_chat.client_options import CUSTOM_ARGUMENT
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import (
    AssistantMessage,
    Content,
    MediaPart,
    Message,
    Part,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

_ROLES = "'system', 'developer', 'user', 'assistant', 'tool' or 'function'"


def read_messages(source: dict[str, JSON]) -> tuple[Message, ...]:
    """Read `messages`. Raises `RequestError`."""
    listed = expect(source.get("messages"), list, "messages")
    if not listed:
        raise RequestError("messages: expected at least one message, got an empty array", param="messages")
    reader = _ChatMessageReader()
    return tuple(reader.read(expect(item, dict, f"messages[{at}]"), at) for at, item in enumerate(listed))


class _ChatMessageReader:
    """Reads messages in order; remembers the ids that it made for legacy calls."""

    def __init__(self) -> None:
        self._legacy_ids: dict[str, str] = {}

    def read(self, message: dict[str, JSON], position: int) -> Message:
        place = f"messages[{position}]"
        match message.get("role"):
            case "system" | "developer":
                return SystemMessage(_read_content(message, place))
            case "user":
                return UserMessage(_read_content(message, place))
            case "assistant":
                return self._read_assistant(message, position, place)
            case "tool":
                call_id = expect(message.get("tool_call_id"), str, f"{place}.tool_call_id")
                return ToolMessage(
                    call_id, _read_content(message, place), read_field(message, "name", str, "", f"{place}.")
                )
            case "function":
                name = expect(message.get("name"), str, f"{place}.name")
                return ToolMessage(self._legacy_ids.get(name, name), _read_content(message, place), name)
            case role:
                raise field_error(role, _ROLES, f"{place}.role")

    def _read_assistant(self, message: dict[str, JSON], position: int, place: str) -> AssistantMessage:
        calls = [
            _read_call(expect(item, dict, f"{place}.tool_calls[{at}]"), f"{place}.tool_calls[{at}]")
            for at, item in enumerate(read_field(message, "tool_calls", list, [], f"{place}."))
        ]
        if not calls and message.get("function_call") is not None:
            legacy = expect(message["function_call"], dict, f"{place}.function_call")
            name, arguments = _read_function(legacy, f"{place}.function_call")
            self._legacy_ids[name] = f"call_{position}"
            calls.append(ToolCall(f"call_{position}", name, arguments))
        content = _read_content(message, place)
        if refusal := read_field(message, "refusal", str, "", f"{place}."):
            content = (*content, TextPart(refusal))
        return AssistantMessage(content, tuple(calls), _read_reasoning(message))


def _read_reasoning(message: dict[str, JSON]) -> str:
    """Take the reasoning of an earlier turn under either name; other forms of it mean nothing to a text model."""
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return reasoning if isinstance(reasoning, str) else ""


def _read_call(call: dict[str, JSON], place: str) -> ToolCall:
    call_id = expect(call.get("id"), str, f"{place}.id")
    if call.get("type") == "custom":
        custom = expect(call.get("custom"), dict, f"{place}.custom")
        text = read_field(custom, "input", str, "", f"{place}.custom.")
        arguments = msgspec.json.encode({CUSTOM_ARGUMENT: text}).decode()
        return ToolCall(call_id, expect(custom.get("name"), str, f"{place}.custom.name"), arguments)
    name, arguments = _read_function(expect(call.get("function"), dict, f"{place}.function"), f"{place}.function")
    return ToolCall(call_id, name, arguments)


def _read_function(function: dict[str, JSON], place: str) -> tuple[str, str]:
    """Give name and arguments; an object instead of its JSON text is what some clients replay."""
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        arguments = msgspec.json.encode(arguments).decode()
    name = expect(function.get("name"), str, f"{place}.name")
    return name, "" if arguments is None else expect(arguments, str, f"{place}.arguments")


def _read_content(message: dict[str, JSON], place: str) -> Content:
    content = message.get("content")
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextPart(content),) if content else ()
    if not isinstance(content, list):
        raise field_error(content, "a string, an array of parts or null", f"{place}.content")
    return tuple(
        _read_part(expect(part, dict, f"{place}.content[{at}]"), f"{place}.content[{at}]")
        for at, part in enumerate(content)
    )


def _read_part(source: dict[str, JSON], place: str) -> Part:
    """Read one part; a kind that we do not know travels on verbatim."""
    match expect(source.get("type"), str, f"{place}.type"):
        case "text":
            return TextPart(expect(source.get("text"), str, f"{place}.text"))
        case "refusal":
            return TextPart(expect(source.get("refusal"), str, f"{place}.refusal"))
        case "image_url":
            return _read_image(source, place)
        case "input_audio":
            audio = expect(source.get("input_audio"), dict, f"{place}.input_audio")
            media_type = f"audio/{read_field(audio, 'format', str, 'wav', f'{place}.input_audio.')}"
            return MediaPart(media_type, data=read_field(audio, "data", str, "", f"{place}.input_audio."), raw=source)
        case "file":
            return _read_file(source, place)
        case _:
            return MediaPart("application/octet-stream", raw=source)


def _read_image(source: dict[str, JSON], place: str) -> MediaPart:
    image = source.get("image_url")
    if isinstance(image, dict):
        image = image.get("url")
    return parse_media_url(expect(image, str, f"{place}.image_url.url"), "image/*", source)


def _read_file(source: dict[str, JSON], place: str) -> MediaPart:
    file = expect(source.get("file"), dict, f"{place}.file")
    data = read_field(file, "file_data", str, "", f"{place}.file.")
    if data:
        return parse_media_url(data, "application/octet-stream", source)
    return MediaPart("application/octet-stream", raw=source)


def parse_media_url(url: str, media_type: str, raw: dict[str, JSON]) -> MediaPart:
    """Take a `data:` URL apart; any other stays a URL."""
    head, comma, data = url.partition(",")
    if url.startswith("data:") and comma and head.endswith(";base64"):
        return MediaPart(head[5:-7].partition(";")[0] or media_type, data=data, raw=raw)
    return MediaPart(media_type, url=url, raw=raw)
