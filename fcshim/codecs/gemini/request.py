"""The client's request: a JSON body and the request path become a `Request`.

Rule: the path names the model, and says whether the reply is streamed. Both spellings of a field are equivalent. An
unknown field or part is never an error. Contents keep their order. A call without an id gets one from its position;
a response without an id answers the first open call of its function. A response to no call is rejected, as in the
API itself. Function declarations become `Tool`s, tools that Google runs `ProviderTool`s. A declaration has its
schema in one of two fields, as OpenAPI or as JSON Schema. A tool choice may only name offered functions.
"""

from urllib.parse import parse_qs

from fcshim.codecs.base import RequestTarget
from fcshim.codecs.body_fields import BodyFields
from fcshim.codecs.gemini.field_names import camel_case, get_field, other_fields, take_field
from fcshim.codecs.gemini.options import FIELDS, GeminiClientOptions, read_settings
from fcshim.codecs.gemini.parts import read_media, read_result, unwrap_signature
from fcshim.codecs.json_text import (
    RequestLimits,
    check_tools,
    expect,
    field_error,
    read_field,
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
    WebAction,
)
from fcshim.schema.limits import exceeds_depth
from fcshim.schema.openapi import from_openapi

_WEB_TOOLS: dict[str, tuple[str, WebAction]] = {
    "googleSearch": ("google_search", "search"),
    "googleSearchRetrieval": ("google_search", "search"),
    "enterpriseWebSearch": ("google_search", "search"),
    "urlContext": ("url_context", "fetch"),
}
"""Tools that Google runs and that the proxy can run instead, with their names for the model."""


def read_tools(source: dict[str, JSON], limits: RequestLimits) -> tuple[tuple[Tool, ...], tuple[ProviderTool, ...]]:
    """Read all `tools`; return the function declarations, and the tools that Google runs. Raises `RequestError`."""
    tools: list[Tool] = []
    provider_tools: list[ProviderTool] = []
    items = get_field(source, "tools")
    for position, item in enumerate([] if items is None else expect(items, list, "tools")):
        path = f"tools[{position}]"
        tool = expect(item, dict, path)
        provider_tools += (
            _read_google_tool(tool, name, path) for name in other_fields(tool, ("functionDeclarations",))
        )
        for index, declaration in enumerate(take_field(tool, "functionDeclarations", list, [], f"{path}.")):
            declaration_path = f"{path}.functionDeclarations[{index}]"
            tools.append(_read_tool(expect(declaration, dict, declaration_path), declaration_path, limits))
    check_tools(tools, limits)
    return tuple(tools), tuple(provider_tools)


def _read_google_tool(tool: dict[str, JSON], name: str, path: str) -> ProviderTool:
    """Read a tool that Google runs, under either spelling of its name."""
    kind = camel_case(name)[:80]
    model_name, action = _WEB_TOOLS.get(kind, (kind, None))
    settings = read_field(tool, name, dict, {}, f"{path}.") if action else {}
    blocked = take_field(settings, "excludeDomains", list, [], f"{path}.{name}.")
    return ProviderTool(name=model_name, type=kind, action=action, blocked_domains=tuple(map(str, blocked)))


def _read_tool(declaration: dict[str, JSON], path: str, limits: RequestLimits) -> Tool:
    name = read_tool_name(declaration, path)
    description = take_field(declaration, "description", str, "", f"{path}.")
    parameters, returns = (_read_schema(declaration, each, path, limits) for each in ("parameters", "response"))
    return Tool(name, description, parameters, returns=returns)


def _read_schema(declaration: dict[str, JSON], name: str, path: str, limits: RequestLimits) -> JSON:
    """Read the schema of a tool's parameters or response, as JSON Schema or as OpenAPI's; None without one."""
    schema = take_field(declaration, f"{name}JsonSchema", dict, None, f"{path}.")
    if schema is not None:
        return schema
    schema = take_field(declaration, name, dict, None, f"{path}.")
    if exceeds_depth(schema, limits.schema_depth):
        raise RequestError(f"{path}.{name}: the schema is nested too deeply", param=f"{path}.{name}")
    return from_openapi(schema)


def read_tool_choice(source: dict[str, JSON], tools: tuple[Tool, ...]) -> ToolChoice:
    """Read `toolConfig`. VALIDATED is the same as AUTO here: arguments are validated in every mode."""
    config = take_field(source, "toolConfig", dict, {})
    calling_config = take_field(config, "functionCallingConfig", dict, {}, "toolConfig.")
    path = "toolConfig.functionCallingConfig"
    names = tuple(
        expect(name, str, f"{path}.allowedFunctionNames[{index}]")
        for index, name in enumerate(take_field(calling_config, "allowedFunctionNames", list, [], f"{path}."))
    )
    offered = {tool.name for tool in tools}
    for name in names:
        if name not in offered:
            raise RequestError(f"{path}: there is no function named {name[:80]!r}", param=path)
    match take_field(calling_config, "mode", str, "AUTO", f"{path}.").upper():
        case "AUTO" | "VALIDATED" | "MODE_UNSPECIFIED":
            return ToolChoice("auto", names) if names else AUTO
        case "NONE":
            return ToolChoice("none")
        case "ANY":
            return ToolChoice("required", names) if tools else AUTO
        case mode:
            raise field_error(mode, "'AUTO', 'ANY', 'NONE' or 'VALIDATED'", f"{path}.mode")


def _wants_pieces(source: dict[str, JSON]) -> bool:
    config = take_field(source, "toolConfig", dict, {})
    return take_field(config, "functionCallingConfig", dict, {}).get("streamFunctionCallArguments") is True


def read_contents(source: dict[str, JSON], *, complete: bool = True) -> tuple[Message, ...]:
    """Read `systemInstruction` and `contents`. Raises `RequestError`.

    A conversation that is not `complete` may begin with responses to calls that are not part of it.
    """
    items = get_field(source, "contents")
    items = [items] if isinstance(items, dict) else expect(items, list, "contents")
    if not items:
        raise RequestError("contents: expected at least one content, got an empty array", param="contents")
    reader = _GeminiContentReader(complete=complete)
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

    def __init__(self, *, complete: bool) -> None:
        self.messages: list[Message] = []
        self._complete = complete
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
        name = read_required(response, "name", str, path)
        call_id = read_field(response, "id", str, "", f"{path}.") or self._find_open_call(name)
        if self._complete and call_id not in self._call_names:
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
        name = read_required(call, "name", str, path)
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


STREAM = ":streamGenerateContent"


def read_request(body: bytes | BodyFields, target: RequestTarget, limits: RequestLimits) -> Request:
    """Read a request. Raises `RequestError` with the offending field in `param`."""
    return _request(read_object(body, FIELDS), target, limits)


def read_count_request(body: bytes | BodyFields, target: RequestTarget, limits: RequestLimits) -> Request:
    """Read a token count request: a whole request inside one field, or contents, of which parts may be counted."""
    source = read_object(body, FIELDS)
    inner = get_field(source, "generateContentRequest")
    if inner is None:
        return _request(source, target, limits, complete=False)
    return _request(expect(inner, dict, "generateContentRequest"), target, limits)


def _request(
    source: dict[str, JSON], target: RequestTarget, limits: RequestLimits, *, complete: bool = True
) -> Request:
    tools, provider_tools = read_tools(source, limits)
    settings = read_settings(source)
    stream = target.path.endswith(STREAM)
    config = take_field(source, "generationConfig", dict, {})
    thinking = take_field(config, "thinkingConfig", dict, {}, "generationConfig.")
    client_options = GeminiClientOptions(
        array=stream and "sse" not in parse_qs(target.query).get("alt", ()),
        thoughts=get_field(thinking, "includeThoughts") is True,
        pieces=stream and _wants_pieces(source),
    )
    return Request(
        model=target.path_params.get("model", ""),
        messages=read_contents(source, complete=complete),
        tools=tools,
        provider_tools=provider_tools,
        tool_choice=read_tool_choice(source, tools),
        stream=stream,
        include_usage=True,
        n=settings.n,
        stop=settings.stop,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        top_p=settings.top_p,
        seed=settings.seed,
        extra=settings.extra,
        verbatim=settings.verbatim,
        client_options=client_options,
    )
