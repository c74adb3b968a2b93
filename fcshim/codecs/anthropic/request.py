"""The client's request: a JSON body of the Messages API becomes a `Request`.

Rule: fields that `Request` knows are validated; `options` takes the others. An unknown field or block is never an
error. Error messages are worded as the API documents them. Messages keep their order. A user turn with tool results
becomes tool messages and user messages; a block of an unknown kind is dropped. As in the API itself, a result must
refer to a call, and call ids must be unique. Tools that the client runs become `Tool`s, also those that have no schema
(`builtin_tools`); those that the provider runs become `ProviderTool`s. A deferred tool is offered only after a tool
reference in the history has loaded it: Claude Code sends deferred placeholders that must never be called. Where the
provider would search the deferred tools, all are offered.
"""

import re
from collections.abc import Collection
from typing import Final

import msgspec

from fcshim.codecs.anthropic.blocks import read_content, read_parts, read_signature
from fcshim.codecs.anthropic.builtin_tools import (
    TOOL_SEARCH_PREFIX,
    TOOLSET,
    TOOLSET_PREFIX,
    read_client_tool,
    read_provider_tool,
    read_remote_servers,
    read_toolset,
)
from fcshim.codecs.anthropic.errors import THREAD_UNSUPPORTED
from fcshim.codecs.anthropic.options import FIELDS, AnthropicClientOptions, read_extra, read_verbatim
from fcshim.codecs.body_fields import BodyFields
from fcshim.codecs.json_text import (
    RequestLimits,
    check_tools,
    expect,
    field_error,
    read_field,
    read_integer,
    read_number,
    read_object,
    read_required,
    read_tool_name,
    write_json,
)
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import (
    AUTO,
    AssistantMessage,
    Content,
    Message,
    Part,
    ProviderTool,
    Request,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
)

CLIENT_LINES: Final = {
    "x-anthropic-billing-header": "Claude Code; it differs between conversations, in older versions each time"
}
"""Names of lines `NAME: value` at the front of a system prompt that are meant for the provider, and who writes them.
They differ between requests and stand before everything else: the server would read the whole prompt anew."""
_LINES = re.compile(rf"\A(?:\s*(?:{'|'.join(CLIENT_LINES)}):[^\n]*(?:\n|\Z))+\s*")


def read_system_prompt(content: Content) -> Content:
    """Return the content of a system prompt without the client's lines; a line break ends each block but the last."""
    kept: list[Part] = []
    for part in content:
        if not isinstance(part, TextPart):
            kept.append(part)
        elif text := _LINES.sub("", part.text):
            kept.append(TextPart(text, part.document))
    for at, part in enumerate(kept[:-1]):
        if isinstance(part, TextPart) and not part.text.endswith("\n"):
            kept[at] = TextPart(f"{part.text}\n", part.document)
    return tuple(kept)


class OfferedTools(msgspec.Struct):
    """The tools of a request, collected while its list is read."""

    tools: list[Tool] = []
    provider_tools: list[ProviderTool] = []
    toolsets: dict[str, str] = {}
    """The toolsets of the tools that belong to one."""


def read_tools(source: dict[str, JSON], loaded_tools: Collection[str], limits: RequestLimits) -> OfferedTools:
    """Read `tools`; `loaded_tools` are the names of deferred tools that the history has loaded.

    Raises `RequestError`.
    """
    offered = OfferedTools()
    listed = [expect(item, dict, f"tools.{at}") for at, item in enumerate(read_field(source, "tools", list, []))]
    all_loaded = any(str(tool.get("type")).startswith(TOOL_SEARCH_PREFIX) for tool in listed)
    for position, tool in enumerate(listed):
        if _is_offered(tool, loaded_tools, all_loaded=all_loaded):
            _add_tool(offered, tool, f"tools.{position}")
    offered.provider_tools += read_remote_servers(source)
    check_tools(offered.tools, limits)
    return offered


def _add_tool(offered: OfferedTools, tool: dict[str, JSON], path: str) -> None:
    kind = str(tool.get("type") or "custom")
    if kind == "custom":
        offered.tools.append(_read_tool(tool, path))
    elif kind.startswith(TOOLSET_PREFIX):
        members = list(read_toolset(tool, path))
        offered.tools += members
        offered.toolsets |= {member.name: TOOLSET for member in members}
    elif (client_tool := read_client_tool(tool, path)) is not None:
        offered.tools.append(client_tool)
    elif not kind.startswith(TOOL_SEARCH_PREFIX):
        offered.provider_tools.append(read_provider_tool(tool, path))


def _is_offered(tool: dict[str, JSON], loaded_tools: Collection[str], *, all_loaded: bool) -> bool:
    """Return whether the model may call a tool now.

    It must be loaded, and callable by the model itself instead of only by code that the provider runs.
    """
    callers = tool.get("allowed_callers")
    if isinstance(callers, list) and "direct" not in callers:
        return False
    return tool.get("defer_loading") is not True or all_loaded or tool.get("name") in loaded_tools


def _read_tool(tool: dict[str, JSON], path: str) -> Tool:
    return Tool(
        name=read_tool_name(tool, path),
        description=read_field(tool, "description", str, "", f"{path}."),
        parameters=read_field(tool, "input_schema", dict, None, f"{path}."),
        strict=read_field(tool, "strict", bool, False, f"{path}."),  # noqa: FBT003  # the default of a field
        deferred=tool.get("defer_loading") is True,
    )


def read_tool_choice(source: dict[str, JSON], offered: OfferedTools) -> tuple[ToolChoice, bool | None]:
    """Read `tool_choice`; return it, and whether parallel calls are allowed: None if the client does not say."""
    value = read_field(source, "tool_choice", dict, {})
    single = read_field(value, "disable_parallel_tool_use", bool, None, "tool_choice.")
    return _read_choice(value, source, offered), None if single is None else not single


def _read_choice(value: dict[str, JSON], source: dict[str, JSON], offered: OfferedTools) -> ToolChoice:
    match value.get("type", "auto"):
        case "auto":
            return AUTO
        case "none":
            return ToolChoice("none")
        case "any":
            if not source.get("tools"):
                raise RequestError("tool_choice: a call is required but no tools are offered", param="tool_choice")
            return ToolChoice("required") if offered.tools or offered.provider_tools else AUTO
        case "tool":
            return _read_named_choice(expect(value.get("name"), str, "tool_choice.name"), source, offered)
        case kind:
            raise field_error(kind, "'auto', 'any', 'tool' or 'none'", "tool_choice.type")


def _read_named_choice(name: str, source: dict[str, JSON], offered: OfferedTools) -> ToolChoice:
    """Choose one tool. If the request has it but it is not offered, the choice is free."""
    if name in {tool.name for tool in offered.tools} | {tool.name for tool in offered.provider_tools}:
        return ToolChoice("required", (name,))
    if any(isinstance(tool, dict) and tool.get("name") == name for tool in source.get("tools") or ()):
        return AUTO
    raise RequestError(f"tool_choice: there is no tool named {name[:80]!r}", param="tool_choice")


_ROLES = "'user', 'assistant' or 'system'"


def read_messages(
    source: dict[str, JSON], *, complete_history: bool = True
) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Read `system` and `messages`; return the messages, and the names of tools that references have loaded, in order.

    With `complete_history`, a tool result must refer to a call in it.
    """
    items = expect(source.get("messages"), list, "messages")
    if not items:
        raise RequestError("messages: at least one message is required", param="messages")
    reader = _AnthropicMessageReader(complete_history=complete_history)
    if source.get("system") is not None:
        content = read_system_prompt(read_content(source["system"], "system", reader.loaded_tools))
        reader.messages += [SystemMessage(content)] if content else []
    for position, item in enumerate(items):
        reader.read(expect(item, dict, f"messages.{position}"), f"messages.{position}")
    return tuple(reader.messages), tuple(reader.loaded_tools)


class _AnthropicMessageReader:
    """Reads messages in order, and keeps the calls that results refer to."""

    def __init__(self, *, complete_history: bool) -> None:
        self._complete_history = complete_history
        self.messages: list[Message] = []
        self.loaded_tools: dict[str, None] = {}
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
        call_id = read_required(block, "tool_use_id", str, path)
        if call_id not in self._call_names and self._complete_history:
            raise RequestError(
                f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id[:80]}. Each `tool_result` "
                "block must have a corresponding `tool_use` block in the previous message.",
                param=f"{path}.tool_use_id",
            )
        if "result" in block and "content" not in block:
            raise RequestError(f"{path}.result: a tool_result has its result in `content`", param=f"{path}.result")
        found: dict[str, None] = {}
        content = read_content(block.get("content"), path, found)
        loads = tuple(name for name in found if name not in self.loaded_tools)
        self.loaded_tools |= found
        is_error = read_field(block, "is_error", bool, False, f"{path}.")  # noqa: FBT003  # the default of a field
        self.messages.append(ToolMessage(call_id, content, self._call_names.get(call_id, ""), is_error, loads))

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
        call_id = read_required(block, "id", str, path)
        if call_id in self._call_names:
            raise RequestError(f"{path}: `tool_use` ids must be unique, {call_id[:80]} appears twice", param=path)
        name = read_required(block, "name", str, path)
        self._call_names[call_id] = name
        return ToolCall(call_id, name, write_json(read_field(block, "input", dict, {}, f"{path}.")).decode())


def _blocks(message: dict[str, JSON], path: str) -> list[JSON]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return expect(content, list, f"{path}.content")


def read_request(body: bytes | BodyFields, limits: RequestLimits, *, stored_upstream: bool = False) -> Request:
    """Read a request.

    `stored_upstream`: the upstream stores what the request refers to, and gets the request unchanged. Raises
    `RequestError` with the offending field in `param`.
    """
    source = read_object(body, FIELDS)
    if source.get("thread") is not None and not stored_upstream:
        raise RequestError("threads are not supported; send the whole history", param="thread", kind=THREAD_UNSUPPORTED)
    messages, loaded = read_messages(source, complete_history=not stored_upstream)
    offered = read_tools(source, loaded, limits)
    choice, parallel = read_tool_choice(source, offered)
    # Deferred tools come last, in the order in which they were loaded: upstreams list tools in this order, too.
    positions = {name: at for at, name in enumerate(loaded)}
    thinking = source.get("thinking")
    return Request(
        model=read_field(source, "model", str, ""),
        messages=messages,
        tools=tuple(sorted(offered.tools, key=lambda tool: positions.get(tool.name, -1) if tool.deferred else -1)),
        provider_tools=tuple(offered.provider_tools),
        tool_choice=choice,
        parallel_tool_calls=parallel,
        stream=read_field(source, "stream", bool, default=False),
        include_usage=True,
        stop=_read_stop(source),
        max_tokens=read_integer(source, "max_tokens", minimum=0),
        temperature=read_number(source, "temperature"),
        top_p=read_number(source, "top_p"),
        extra=read_extra(source),
        verbatim=read_verbatim(source),
        client_options=AnthropicClientOptions(
            thinking=isinstance(thinking, dict) and thinking.get("type") not in (None, "disabled"),
            toolsets=offered.toolsets,
        ),
    )


def _read_stop(source: dict[str, JSON]) -> tuple[str, ...]:
    """Read stop sequences. An empty one would match everywhere and is dropped."""
    sequences = read_field(source, "stop_sequences", list, [])
    return tuple(
        text
        for index, text in enumerate(sequences)
        if expect(text, str, f"stop_sequences.{index}", param="stop_sequences")
    )
