"""Reading the messages of a request: every role and form of content becomes a `Message`.

Rule: the order is kept; ids that the legacy form lacks are made from the position, so that the same history always
gives the same prompt. A tool result without a matching call is kept, because it is harmless text for the model.
"""

import msgspec

from fcshim.codecs.fields import expect, field_error, read_field
from fcshim.codecs.openai_chat.request_tools import CUSTOM_ARGUMENT
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
    """Reads messages in order; keeps the ids made for legacy calls, which their results refer to by name."""

    def __init__(self) -> None:
        self._legacy_ids: dict[str, str] = {}

    def read(self, message: dict[str, JSON], position: int) -> Message:
        path = f"messages[{position}]"
        match message.get("role"):
            case "system" | "developer":
                return SystemMessage(_read_content(message, path))
            case "user":
                return UserMessage(_read_content(message, path))
            case "assistant":
                return self._read_assistant(message, position, path)
            case "tool":
                call_id = expect(message.get("tool_call_id"), str, f"{path}.tool_call_id")
                return ToolMessage(
                    call_id, _read_content(message, path), read_field(message, "name", str, "", f"{path}.")
                )
            case "function":
                name = expect(message.get("name"), str, f"{path}.name")
                return ToolMessage(self._legacy_ids.get(name, name), _read_content(message, path), name)
            case role:
                raise field_error(role, _ROLES, f"{path}.role")

    def _read_assistant(self, message: dict[str, JSON], position: int, path: str) -> AssistantMessage:
        calls = [
            _read_call(expect(item, dict, f"{path}.tool_calls[{at}]"), f"{path}.tool_calls[{at}]")
            for at, item in enumerate(read_field(message, "tool_calls", list, [], f"{path}."))
        ]
        if not calls and message.get("function_call") is not None:
            legacy = expect(message["function_call"], dict, f"{path}.function_call")
            name, arguments = _read_function(legacy, f"{path}.function_call")
            self._legacy_ids[name] = f"call_{position}"
            calls.append(ToolCall(f"call_{position}", name, arguments))
        content = _read_content(message, path)
        if refusal := read_field(message, "refusal", str, "", f"{path}."):
            content = (*content, TextPart(refusal))
        return AssistantMessage(content, tuple(calls), _read_reasoning(message))


def _read_reasoning(message: dict[str, JSON]) -> str:
    """Read the reasoning of an earlier turn, under either name; forms other than a string are dropped."""
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return reasoning if isinstance(reasoning, str) else ""


def _read_call(call: dict[str, JSON], path: str) -> ToolCall:
    call_id = expect(call.get("id"), str, f"{path}.id")
    if call.get("type") == "custom":
        custom = expect(call.get("custom"), dict, f"{path}.custom")
        text = read_field(custom, "input", str, "", f"{path}.custom.")
        arguments = msgspec.json.encode({CUSTOM_ARGUMENT: text}).decode()
        return ToolCall(call_id, expect(custom.get("name"), str, f"{path}.custom.name"), arguments)
    name, arguments = _read_function(expect(call.get("function"), dict, f"{path}.function"), f"{path}.function")
    return ToolCall(call_id, name, arguments)


def _read_function(function: dict[str, JSON], path: str) -> tuple[str, str]:
    """Return name and arguments; some clients replay the arguments as an object instead of its JSON text."""
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        arguments = msgspec.json.encode(arguments).decode()
    name = expect(function.get("name"), str, f"{path}.name")
    return name, "" if arguments is None else expect(arguments, str, f"{path}.arguments")


def _read_content(message: dict[str, JSON], path: str) -> Content:
    content = message.get("content")
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextPart(content),) if content else ()
    if not isinstance(content, list):
        raise field_error(content, "a string, an array of parts or null", f"{path}.content")
    return tuple(
        _read_part(expect(part, dict, f"{path}.content[{at}]"), f"{path}.content[{at}]")
        for at, part in enumerate(content)
    )


def _read_part(source: dict[str, JSON], path: str) -> Part:
    """Read one part; a part of an unknown type is kept verbatim in `raw`."""
    match expect(source.get("type"), str, f"{path}.type"):
        case "text":
            return TextPart(expect(source.get("text"), str, f"{path}.text"))
        case "refusal":
            return TextPart(expect(source.get("refusal"), str, f"{path}.refusal"))
        case "image_url":
            return _read_image(source, path)
        case "input_audio":
            audio = expect(source.get("input_audio"), dict, f"{path}.input_audio")
            media_type = f"audio/{read_field(audio, 'format', str, 'wav', f'{path}.input_audio.')}"
            return MediaPart(media_type, data=read_field(audio, "data", str, "", f"{path}.input_audio."), raw=source)
        case "file":
            return _read_file(source, path)
        case _:
            return MediaPart("application/octet-stream", raw=source)


def _read_image(source: dict[str, JSON], path: str) -> MediaPart:
    image = source.get("image_url")
    if isinstance(image, dict):
        image = image.get("url")
    return parse_media_url(expect(image, str, f"{path}.image_url.url"), "image/*", source)


def _read_file(source: dict[str, JSON], path: str) -> MediaPart:
    file = expect(source.get("file"), dict, f"{path}.file")
    data = read_field(file, "file_data", str, "", f"{path}.file.")
    if data:
        return parse_media_url(data, "application/octet-stream", source)
    return MediaPart("application/octet-stream", raw=source)


def parse_media_url(url: str, media_type: str, raw: dict[str, JSON]) -> MediaPart:
    """Create the part for a URL: a base64 `data:` URL becomes data, any other stays a URL."""
    head, comma, data = url.partition(",")
    if url.startswith("data:") and comma and head.endswith(";base64"):
        return MediaPart(head[5:-7].partition(";")[0] or media_type, data=data, raw=raw)
    return MediaPart(media_type, url=url, raw=raw)
