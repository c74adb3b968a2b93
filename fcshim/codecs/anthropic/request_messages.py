"""The messages of a request: every role and kind of block becomes a `Message`.

Rule: the order is kept. A user turn with tool results becomes tool messages and user messages; a block of an unknown
kind is dropped. As in the API itself, a result must refer to a call, and call ids must be unique.
"""

from fcshim.codecs.anthropic.blocks import read_content, read_parts, read_signature
from fcshim.codecs.fields import expect, field_error, read_field
from fcshim.codecs.json_text import write_json
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import (
    AssistantMessage,
    Message,
    Part,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

_ROLES = "'user', 'assistant' or 'system'"


def read_messages(
    source: dict[str, JSON], *, complete_history: bool = True
) -> tuple[tuple[Message, ...], frozenset[str]]:
    """Read `system` and `messages`; return the messages, and the names of tools that tool references have loaded.

    With `complete_history`, a tool result must refer to a call in it.
    """
    items = expect(source.get("messages"), list, "messages")
    if not items:
        raise RequestError("messages: at least one message is required", param="messages")
    reader = _AnthropicMessageReader(complete_history=complete_history)
    if source.get("system") is not None:
        content = read_content(source["system"], "system", reader.loaded_tools)
        reader.messages += [SystemMessage(content)] if content else []
    for position, item in enumerate(items):
        reader.read(expect(item, dict, f"messages.{position}"), f"messages.{position}")
    return tuple(reader.messages), frozenset(reader.loaded_tools)


class _AnthropicMessageReader:
    """Reads messages in order, and keeps the calls that results refer to."""

    def __init__(self, *, complete_history: bool) -> None:
        self._complete_history = complete_history
        self.messages: list[Message] = []
        self.loaded_tools: set[str] = set()
        self._call_names: dict[str, str] = {}

    def read(self, message: dict[str, JSON], path: str) -> None:
        match message.get("role"):
            case "user":
                self._read_user(_blocks(message, path), path)
            case "assistant":
                self._read_assistant(_blocks(message, path), path)
            case "system":
                self.messages.append(SystemMessage(read_content(message.get("content"), path, self.loaded_tools)))
            case role:
                raise field_error(role, _ROLES, f"{path}.role")

    def _read_user(self, blocks: list[JSON], path: str) -> None:
        parts: list[Part] = []
        for index, item in enumerate(blocks):
            block_path = f"{path}.content.{index}"
            block = expect(item, dict, block_path)
            if block.get("type") == "tool_result":
                self._end_user(parts)
                self._read_result(block, block_path)
            else:
                parts += read_parts(block, block_path, self.loaded_tools)
        self._end_user(parts)

    def _end_user(self, parts: list[Part]) -> None:
        if parts:
            self.messages.append(UserMessage(tuple(parts)))
            parts.clear()

    def _read_result(self, block: dict[str, JSON], path: str) -> None:
        call_id = expect(block.get("tool_use_id"), str, f"{path}.tool_use_id")
        if call_id not in self._call_names and self._complete_history:
            raise RequestError(
                f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id[:80]}. Each `tool_result` "
                "block must have a corresponding `tool_use` block in the previous message.",
                param=f"{path}.tool_use_id",
            )
        content = read_content(block.get("content"), path, self.loaded_tools)
        is_error = read_field(block, "is_error", bool, False, f"{path}.")  # noqa: FBT003  # the default of a field
        self.messages.append(ToolMessage(call_id, content, self._call_names.get(call_id, ""), is_error))

    def _read_assistant(self, blocks: list[JSON], path: str) -> None:
        parts: list[Part] = []
        calls: list[ToolCall] = []
        thoughts: list[str] = []
        signature = ""
        for index, item in enumerate(blocks):
            block_path = f"{path}.content.{index}"
            block = expect(item, dict, block_path)
            match block.get("type"):
                case "tool_use":
                    calls.append(self._read_call(block, block_path))
                case "thinking" | "redacted_thinking":
                    thoughts.append(read_field(block, "thinking", str, "", f"{block_path}."))
                    signature = signature or read_signature(block)
                case _:
                    parts += read_parts(block, block_path, self.loaded_tools)
        reasoning = "\n\n".join(filter(None, thoughts))
        self.messages.append(AssistantMessage(tuple(parts), tuple(calls), reasoning, signature))

    def _read_call(self, block: dict[str, JSON], path: str) -> ToolCall:
        call_id = expect(block.get("id"), str, f"{path}.id")
        if call_id in self._call_names:
            raise RequestError(f"{path}: `tool_use` ids must be unique, {call_id[:80]} appears twice", param=path)
        name = expect(block.get("name"), str, f"{path}.name")
        self._call_names[call_id] = name
        return ToolCall(call_id, name, write_json(read_field(block, "input", dict, {}, f"{path}.")).decode())


def _blocks(message: dict[str, JSON], path: str) -> list[JSON]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return expect(content, list, f"{path}.content")
