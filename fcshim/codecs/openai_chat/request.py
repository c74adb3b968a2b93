"""Reading the client's request: a JSON body of the Chat API becomes a `Request`.

Rule: fields that `Request` has are validated; all others are kept verbatim in `extra`. An unknown field is never an
error. Messages keep their order; ids that the legacy form lacks are made from the position, so that the same history
always gives the same prompt. A tool result without a matching call is kept, because it is harmless text for the model.
Legacy functions and custom tools become plain tools; a choice may name only offered tools.
"""

import json

import msgspec

from fcshim.codecs.body_fields import BodyFields, FieldRules
from fcshim.codecs.json_text import (
    RequestLimits,
    check_arguments,
    check_tools,
    expect,
    field_error,
    object_schema,
    read_field,
    read_integer,
    read_number,
    read_object,
    read_required,
    read_tool_name,
)
from fcshim.errors import RequestError
from fcshim.events import JSON, CallError, ToolCallEnd
from fcshim.messages import (
    AUTO,
    AssistantMessage,
    ClientOptions,
    Content,
    MediaPart,
    Message,
    Part,
    Request,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
)

CUSTOM_ARGUMENT = "input"
"""The single string argument of a function that stands for a custom tool, which takes one text."""
_NO_NAMES: frozenset[str] = frozenset()  # an empty one of each request would take 216 bytes


def read_tools(source: dict[str, JSON], limits: RequestLimits) -> tuple[tuple[Tool, ...], frozenset[str]]:
    """Read `tools`, else the legacy `functions`; return the tools and the names of the custom tools."""
    custom: set[str] = set()
    tools: list[Tool] = []
    for position, item in enumerate(read_field(source, "tools", list, [])):
        path = f"tools[{position}]"
        tool = expect(item, dict, path)
        if tool.get("type") == "custom":
            tools.append(read_custom(read_required(tool, "custom", dict, path), f"{path}.custom"))
            custom.add(tools[-1].name)
        elif tool.get("type", "function") == "function":
            tools.append(read_function(read_required(tool, "function", dict, path), f"{path}.function"))
        else:
            raise field_error(tool["type"], "'function' or 'custom'", f"{path}.type")
    for position, item in enumerate([] if tools else read_field(source, "functions", list, [])):
        path = f"functions[{position}]"
        tools.append(read_function(expect(item, dict, path), path))
    check_tools(tools, limits)
    return tuple(tools), frozenset(custom) if custom else _NO_NAMES


def read_function(function: dict[str, JSON], path: str) -> Tool:
    """Read `{name, description, parameters, strict}`. Raises `RequestError`."""
    return Tool(
        name=read_tool_name(function, path),
        description=read_field(function, "description", str, "", f"{path}."),
        parameters=read_field(function, "parameters", dict, None, f"{path}."),
        strict=read_field(function, "strict", bool, False, f"{path}."),  # noqa: FBT003  # the default of a field
    )


def read_custom(custom: dict[str, JSON], path: str) -> Tool:
    """Convert a custom tool, which takes free text, to a function with one string. Raises `RequestError`."""
    description = read_field(custom, "description", str, "", f"{path}.")
    note = _CUSTOM_NOTE_AFTER_DESCRIPTION if description else _CUSTOM_NOTE
    texts = (description, note, _format_note(read_field(custom, "format", dict, {}, f"{path}.")))
    schema = object_schema(CUSTOM_ARGUMENT, **{CUSTOM_ARGUMENT: {"type": "string"}})
    return Tool(read_tool_name(custom, path), "\n".join(filter(None, texts)), schema, custom=True)


_CUSTOM_NOTE = f"It takes one text, which is the string `{CUSTOM_ARGUMENT}`."
_CUSTOM_NOTE_AFTER_DESCRIPTION = (
    f"What is said above of the form of the input holds for the value of `{CUSTOM_ARGUMENT}`, which is the whole text. "
    "The call around that value is written like every other call."
)
"""Descriptions often forbid JSON, in which the model has to write the call."""


def custom_text(arguments: str) -> str | None:
    """Return the text with which a custom tool was called: the only argument, whatever its name; None without one."""
    match list(json.loads(arguments or "{}").values()):
        case [str(text)]:
            return text
    return None


def _format_note(form: dict[str, JSON]) -> str:
    """Describe the format of the text; the Responses API has the grammar's fields directly in `format`."""
    grammar = form.get("grammar", form)
    definition = grammar.get("definition") if isinstance(grammar, dict) else None
    if not isinstance(definition, str):
        return ""
    return f"`{CUSTOM_ARGUMENT}` must match this {grammar.get('syntax', 'lark')} grammar:\n{definition}"


def read_tool_choice(source: dict[str, JSON], tools: tuple[Tool, ...], *, legacy: bool) -> ToolChoice:
    """Read `tool_choice`, or the legacy `function_call`."""
    field = "function_call" if legacy and source.get("tool_choice") is None else "tool_choice"
    value = source.get(field)
    choice = _read_choice(value, field)
    offered = {tool.name for tool in tools}
    for name in choice.names:
        if name not in offered:
            raise RequestError(f"{field}: there is no tool named {name[:80]!r}", param=field)
    if choice.mode == "required" and not tools:
        raise RequestError(f"{field}: a call is required but no tools are offered", param=field)
    return choice


def _read_choice(value: JSON, field: str) -> ToolChoice:
    match value:
        case None:
            return AUTO
        case "auto" | "none" | "required":
            return msgspec.convert({"mode": value}, ToolChoice)
        case {"type": "allowed_tools", "allowed_tools": {"tools": list(listed), **rest}}:
            mode = rest.get("mode", "auto")
            if mode not in ("auto", "required"):
                raise field_error(mode, "'auto' or 'required'", f"{field}.allowed_tools.mode")
            names = tuple(
                _read_chosen_name(item, f"{field}.allowed_tools.tools[{at}]") for at, item in enumerate(listed)
            )
            return ToolChoice(mode, names)
        case dict():
            return ToolChoice("required", (_read_chosen_name(value, field),))
        case _:
            raise field_error(value, "'none', 'auto', 'required' or an object that names a tool", field)


def _read_chosen_name(value: JSON, path: str) -> str:
    """Read the name in `{type, function: {name}}`, `{type, custom: {name}}` or the legacy `{name}`."""
    match value:
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}} | {"name": str(name)}:
            return name
        case _:
            raise field_error(value, "an object that names a tool", path)


_ROLES = "'system', 'developer', 'user', 'assistant', 'tool' or 'function'"


def read_messages(source: dict[str, JSON]) -> tuple[Message, ...]:
    """Read `messages`. Raises `RequestError`."""
    listed = expect(source.get("messages"), list, "messages")
    if not listed:
        raise RequestError("messages: expected at least one message, got an empty array", param="messages")
    reader = _ChatMessageReader()
    return tuple([reader.read(item, at) for at, item in enumerate(listed)])


class _ChatMessageReader:
    """Reads messages in order; keeps the ids made for legacy calls, which their results refer to by name."""

    def __init__(self) -> None:
        self._legacy_ids: dict[str, str] = {}

    def read(self, item: JSON, position: int) -> Message:
        path = f"messages[{position}]"
        message = expect(item, dict, path)
        match message.get("role"):
            case "system" | "developer":
                return SystemMessage(_read_content(message, path))
            case "user":
                return UserMessage(_read_content(message, path))
            case "assistant":
                return self._read_assistant(message, position, path)
            case "tool":
                call_id = read_required(message, "tool_call_id", str, path)
                return ToolMessage(
                    call_id, _read_content(message, path), read_field(message, "name", str, "", f"{path}.")
                )
            case "function":
                name = read_required(message, "name", str, path)
                return ToolMessage(self._legacy_ids.get(name, name), _read_content(message, path), name)
            case role:
                raise field_error(role, _ROLES, f"{path}.role")

    def _read_assistant(self, message: dict[str, JSON], position: int, path: str) -> AssistantMessage:
        calls = [
            _read_call(item, f"{path}.tool_calls[{at}]")
            for at, item in enumerate(read_field(message, "tool_calls", list, [], f"{path}."))
        ]
        if not calls and message.get("function_call") is not None:
            name, arguments = _read_function(message["function_call"], f"{path}.function_call")
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


def _read_call(item: JSON, path: str) -> ToolCall:
    call = expect(item, dict, path)
    call_id = read_required(call, "id", str, path)
    if call.get("type") == "custom":
        custom = read_required(call, "custom", dict, path)
        text = read_field(custom, "input", str, "", f"{path}.custom.")
        arguments = msgspec.json.encode({CUSTOM_ARGUMENT: text}).decode()
        return ToolCall(call_id, read_required(custom, "name", str, f"{path}.custom"), arguments)
    name, arguments = _read_function(call.get("function"), f"{path}.function")
    return ToolCall(call_id, name, arguments)


def _read_function(item: JSON, path: str) -> tuple[str, str]:
    """Return name and arguments; some clients replay the arguments as an object instead of its JSON text."""
    function = expect(item, dict, path)
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        arguments = msgspec.json.encode(arguments).decode()
    name = read_required(function, "name", str, path)
    if arguments is None:
        return name, ""
    return name, check_arguments(expect(arguments, str, f"{path}.arguments"), f"{path}.arguments")


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
    match read_required(source, "type", str, path):
        case "text":
            return TextPart(read_required(source, "text", str, path))
        case "refusal":
            return TextPart(read_required(source, "refusal", str, path))
        case "image_url":
            return _read_image(source, path)
        case "input_audio":
            audio = read_required(source, "input_audio", dict, path)
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
    file = read_required(source, "file", dict, path)
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


_KNOWN_FIELDS = frozenset(
    [
        "model", "messages", "stream", "stream_options", "n", "stop", "max_tokens", "max_completion_tokens",
        "temperature", "top_p", "seed",
        "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call",
    ]
)  # fmt: skip
FIELDS = FieldRules(known=_KNOWN_FIELDS | {"response_format", "logprobs", "reasoning_effort", "top_k"})
"""The last ones stay in `Request.extra`; others read them there."""


class ChatClientOptions(ClientOptions, frozen=True, kw_only=True):
    """The forms that the client used. They affect the form of requests and replies, never their meaning."""

    functions: bool = False
    """The legacy `functions` and `function_call` instead of `tools` and `tool_calls`."""
    max_completion_tokens: bool = False
    """The newer name of `max_tokens`."""
    custom: frozenset[str] = _NO_NAMES
    """Names of the tools that were offered as custom tools."""
    stream_usage: bool = True
    """Whether the upstream is asked for the usage of a stream, which a few refuse."""

    def check(self, call: ToolCallEnd) -> ToolCallEnd:
        """Return the call, with an error if it is of a custom tool and its arguments are not text."""
        arguments = call.tool_call_arguments_complete
        if call.error is not None or call.tool_call_name not in self.custom or custom_text(arguments) is not None:
            return call
        error = CallError("invalid", f"the arguments of {call.tool_call_name} are not one text", arguments[:200])
        return msgspec.structs.replace(call, error=error)


def read_request(body: bytes | BodyFields, limits: RequestLimits) -> Request:
    """Read a request. Raises `RequestError` with the invalid field in `param`."""
    source = read_object(body, FIELDS)
    tools, custom = read_tools(source, limits)
    legacy = not source.get("tools") and bool(source.get("functions"))
    options = read_field(source, "stream_options", dict, {})
    client_options = ChatClientOptions(
        functions=legacy,
        max_completion_tokens=source.get("max_completion_tokens") is not None,
        custom=custom,
    )
    # -1 and 0 are valid: llama-server reads them as "no limit".
    newer = read_integer(source, "max_completion_tokens", minimum=-1)
    older = read_integer(source, "max_tokens", minimum=-1)
    extra = {name: value for name, value in source.items() if name not in _KNOWN_FIELDS}
    if others := {name: value for name, value in options.items() if name != "include_usage"}:
        extra["stream_options"] = others
    return Request(
        model=read_field(source, "model", str, ""),
        messages=read_messages(source),
        tools=tools,
        tool_choice=read_tool_choice(source, tools, legacy=legacy),
        parallel_tool_calls=read_field(source, "parallel_tool_calls", bool, False if legacy else None),
        stream=read_field(source, "stream", bool, default=False),
        include_usage=read_field(options, "include_usage", bool, default=False, prefix="stream_options."),
        n=read_integer(source, "n", minimum=1, maximum=limits.choices) or 1,
        stop=_read_stop(source.get("stop")),
        max_tokens=older if newer is None else newer,
        temperature=read_number(source, "temperature"),
        top_p=read_number(source, "top_p"),
        seed=read_integer(source, "seed", minimum=-(2**63)),
        extra=extra,
        client_options=client_options,
    )


def _read_stop(value: JSON) -> tuple[str, ...]:
    """Read stop strings; an empty string would match everywhere and is dropped, as upstreams do."""
    if value is None:
        return ()
    if not isinstance(value, str | list):
        raise field_error(value, "a string or an array of strings", "stop")
    listed = [value] if isinstance(value, str) else value
    return tuple(text for at, text in enumerate(listed) if expect(text, str, f"stop[{at}]", param="stop"))
