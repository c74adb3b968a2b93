"""The contents of a request: every role and kind of part becomes a `Message`.

Rule: the order is kept. A call without an id gets one from its position; a response without an id answers the first
open call of its function. A response to no call is rejected, as in the API itself.
"""

from fcshim.codecs.fields import expect, field_error, read_field
from fcshim.codecs.gemini.field_names import get_field, take_field
from fcshim.codecs.gemini.parts import read_media, read_result, unwrap_signature
from fcshim.codecs.json_text import write_json
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import (
    AssistantMessage,
    Message,
    Part,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)


def read_contents(source: dict[str, JSON]) -> tuple[Message, ...]:
    """Read `systemInstruction` and `contents`. Raises `RequestError`."""
    items = get_field(source, "contents")
    items = [items] if isinstance(items, dict) else expect(items, list, "contents")
    if not items:
        raise RequestError("contents: expected at least one content, got an empty array", param="contents")
    reader = _GeminiContentReader()
    system = get_field(source, "systemInstruction")
    if system is not None:
        parts = [part for part in _parts(system, "systemInstruction") if part.get("text")]
        reader.messages.append(
            SystemMessage(tuple(TextPart(expect(part["text"], str, "systemInstruction")) for part in parts))
        )
    for position, item in enumerate(items):
        reader.read(item, position)
    return tuple(reader.messages)


class _GeminiContentReader:
    """Reads contents in order, and keeps the calls that responses refer to."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._call_names: dict[str, str] = {}  # by call id
        self._open_call_ids: list[str] = []  # of calls without a response

    def read(self, item: JSON, position: int) -> None:
        path = f"contents[{position}]"
        role = item.get("role") if isinstance(item, dict) else None
        parts = _parts(item, path)
        match role:
            case None | "" | "user" | "function":
                self._read_user(parts, path)
            case "model":
                self._read_model(parts, position, path)
            case _:
                raise field_error(role, "'user' or 'model'", f"{path}.role")

    def _read_user(self, parts: list[dict[str, JSON]], path: str) -> None:
        content: list[Part] = []
        for index, part in enumerate(parts):
            part_path = f"{path}.parts[{index}]"
            response = take_field(part, "functionResponse", dict, None, f"{part_path}.")
            if response is None:
                content += _read_content_part(part, part_path)
                continue
            self._end_user(content)
            self._read_response(response, f"{part_path}.functionResponse")
        self._end_user(content)

    def _end_user(self, content: list[Part]) -> None:
        if content:
            self.messages.append(UserMessage(tuple(content)))
            content.clear()

    def _read_response(self, response: dict[str, JSON], path: str) -> None:
        name = expect(response.get("name"), str, f"{path}.name")
        call_id = read_field(response, "id", str, "", f"{path}.") or self._find_open_call(name)
        if call_id not in self._call_names:
            raise RequestError(
                f"{path}: there is no function call named {name[:80]!r} that it answers. Please ensure that a "
                "function response turn comes immediately after a function call turn.",
                param=path,
            )
        if call_id in self._open_call_ids:
            self._open_call_ids.remove(call_id)
        content, is_error = read_result(response, path)
        self.messages.append(ToolMessage(call_id, content, name, is_error))

    def _find_open_call(self, name: str) -> str:
        return next((call_id for call_id in self._open_call_ids if self._call_names[call_id] == name), "")

    def _read_model(self, parts: list[dict[str, JSON]], position: int, path: str) -> None:
        content: list[Part] = []
        calls: list[ToolCall] = []
        thoughts: list[str] = []
        signature = ""
        for index, part in enumerate(parts):
            part_path = f"{path}.parts[{index}]"
            signature = signature or unwrap_signature(take_field(part, "thoughtSignature", str, "", f"{part_path}."))
            call = take_field(part, "functionCall", dict, None, f"{part_path}.")
            if call is not None:
                calls.append(self._read_call(call, f"call_{position}_{index}", f"{part_path}.functionCall"))
            elif part.get("thought") is True:
                thoughts.append(read_field(part, "text", str, "", f"{part_path}."))
            else:
                content += _read_content_part(part, part_path)
        self.messages.append(AssistantMessage(tuple(content), tuple(calls), "".join(thoughts), signature))

    def _read_call(self, call: dict[str, JSON], default_id: str, path: str) -> ToolCall:
        call_id = read_field(call, "id", str, "", f"{path}.")
        if not call_id or call_id in self._call_names:
            call_id = default_id
        name = expect(call.get("name"), str, f"{path}.name")
        self._call_names[call_id] = name
        self._open_call_ids.append(call_id)
        return ToolCall(call_id, name, write_json(read_field(call, "args", dict, {}, f"{path}.")).decode())


def _parts(item: JSON, path: str) -> list[dict[str, JSON]]:
    """Return the parts of a content, which may also be a bare string, part or array of parts."""
    if isinstance(item, str):
        return [{"text": item}]
    if isinstance(item, dict) and ("parts" in item or "role" in item):
        item = read_field(item, "parts", list, [], f"{path}.")
    parts = [item] if isinstance(item, dict) else expect(item, list, path)
    return [
        {"text": part} if isinstance(part, str) else expect(part, dict, f"{path}.parts[{index}]")
        for index, part in enumerate(parts)
    ]


def _read_content_part(part: dict[str, JSON], path: str) -> list[Part]:
    """Read a part that is neither call nor response; an unknown kind gives nothing."""
    if part.get("text") is not None:
        text = expect(part["text"], str, f"{path}.text")
        return [TextPart(text)] if text else []
    media = read_media(part, path)
    return [] if media is None else [media]
