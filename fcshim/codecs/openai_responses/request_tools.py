"""Reading the tools of a request: functions, custom tools, built-in tools and namespaces become `Tool`.

Rule: the model sees a tool in a namespace as `namespace__name`, a custom tool as a function with one string, and a
built-in tool that the client runs as a function with its documented schema. Hosted tools (web search and the like)
become `ProviderTool`s.
"""

from collections.abc import Iterator

import msgspec

from fcshim.codecs.json_text import RequestLimits, check_tools, expect, field_error, read_required
from fcshim.codecs.openai_chat.request import custom_text, read_custom, read_function
from fcshim.codecs.openai_responses.builtin_tools import (
    call_fields,
    is_provider_search,
    read_builtin_tool,
    read_provider_tools,
)
from fcshim.errors import RequestError
from fcshim.events import JSON, CallError, ToolCallEnd
from fcshim.messages import AUTO, ClientOptions, ProviderTool, Tool, ToolChoice


class ResponsesClientOptions(ClientOptions, frozen=True, kw_only=True):
    """The client's own form of its tools, by the names that the model sees."""

    custom: frozenset[str] = frozenset()
    """Names of custom tools, which take free text."""
    namespaces: dict[str, str] = {}
    """The namespaces of the tools that have one."""
    builtin: frozenset[str] = frozenset()
    """Names of built-in tools, whose calls are items of their own types."""

    def is_whole(self, name: str) -> bool:
        """Return whether the calls of a tool can be written only when they are complete."""
        return name in self.custom or name in self.builtin

    def check(self, call: ToolCallEnd) -> ToolCallEnd:
        """Return the call, with an error if its arguments have no place in the client's form of the tool."""
        name, arguments = call.tool_call_name, call.tool_call_arguments_complete
        if call.error is not None or not self.is_whole(name):
            return call
        fits = custom_text(arguments) if name in self.custom else call_fields(name, arguments)
        if fits is not None:
            return call
        error = CallError("invalid", f"the arguments of {name} do not have its form", arguments[:200])
        return msgspec.structs.replace(call, error=error)

    def client_name(self, name: str) -> dict[str, str]:
        """Return the client's own `name` of a tool, and its `namespace` if it has one."""
        space = self.namespaces.get(name)
        return {"name": name} if space is None else {"name": name[len(flat_name(space, "")) :], "namespace": space}


def flat_name(namespace: str, name: str) -> str:
    """Return the name under which the model sees a tool, with the namespace if there is one."""
    return f"{namespace}__{name}" if namespace else name


def flat_names(listed: list[JSON]) -> Iterator[str]:
    """Yield the names under which the model sees tools of a list, also those in namespaces."""
    for tool in listed:
        match tool:
            case {"type": "namespace", "name": str(space), "tools": list(inner)}:
                yield from (flat_name(space, name) for name in flat_names(inner))
            case {"name": str(name)} | {"function": {"name": str(name)}}:
                yield name


class ResponsesTools(msgspec.Struct):
    """The tools of a request, collected while its lists are read."""

    tools: dict[str, Tool] = {}
    custom: set[str] = set()
    namespaces: dict[str, str] = {}
    builtin: set[str] = set()
    provider_tools: list[ProviderTool] = []

    def client_options(self) -> ResponsesClientOptions:
        """Return the options for converting calls back to the client's forms."""
        return ResponsesClientOptions(
            custom=frozenset(self.custom), namespaces=self.namespaces, builtin=frozenset(self.builtin)
        )

    def has(self, name: str) -> bool:
        """Return whether a tool of the client or the provider has this name."""
        return name in self.tools or any(name == tool.name for tool in self.provider_tools)

    def find_hosted(self, kind: str) -> str:
        """Return the name of a built-in tool by its type, whose date may be missing; empty for a type without tools."""
        hosted = next((tool.name for tool in self.provider_tools if tool.type.startswith(kind)), kind)
        return "" if kind in ("function", "custom") else hosted


def read_tools(listed: list[JSON], loaded_tools: list[JSON], limits: RequestLimits) -> ResponsesTools:
    """Read `tools`, and the tools that input items contain, which may repeat others. Raises `RequestError`."""
    offered = ResponsesTools()
    for position, tool in enumerate(listed):
        _read_tool(offered, expect(tool, dict, f"tools[{position}]"), f"tools[{position}]", "")
    for tool in loaded_tools:
        if isinstance(tool, dict):
            _read_tool(offered, tool, "tools", "", allow_repeat=True)
    check_tools(tuple(offered.tools.values()), limits)
    return offered


def _read_tool(
    offered: ResponsesTools, tool: dict[str, JSON], path: str, namespace: str, *, allow_repeat: bool = False
) -> None:
    match tool.get("type"):
        case "function":
            inner = tool.get("function")  # the Chat API's form, which some clients also send here
            _add_tool(
                offered,
                read_function(inner if isinstance(inner, dict) else tool, path),
                path,
                namespace,
                allow_repeat=allow_repeat,
            )
        case "custom":
            converted = read_custom(tool, path)
            offered.custom.add(flat_name(namespace, converted.name))
            _add_tool(offered, converted, path, namespace, allow_repeat=allow_repeat)
        case "namespace" if not namespace:
            _read_namespace(offered, tool, path, allow_repeat=allow_repeat)
        case kind if (builtin := read_builtin_tool(tool, path)) is not None:
            offered.builtin.add(str(kind))
            _add_tool(offered, builtin, path, "", allow_repeat=allow_repeat)
        case kind if not is_provider_search(str(kind)):
            offered.provider_tools += read_provider_tools(tool, path)


def _read_namespace(offered: ResponsesTools, tool: dict[str, JSON], path: str, *, allow_repeat: bool) -> None:
    """Read the tools of a namespace; its description is prepended to that of its first tool."""
    name = read_required(tool, "name", str, path)
    # It becomes part of the tools' names.
    if "=" in name or name.split() != [name]:
        raise field_error(name, "a name without blanks", f"{path}.name")
    description = tool.get("description")
    for position, inner in enumerate(read_required(tool, "tools", list, path)):
        inner_path = f"{path}.tools[{position}]"
        fields = dict(expect(inner, dict, inner_path))
        if position == 0 and isinstance(description, str) and description:
            own = fields.get("description")
            fields["description"] = f"{description}\n{own}" if isinstance(own, str) and own else description
        _read_tool(offered, fields, inner_path, name, allow_repeat=allow_repeat)


def _add_tool(offered: ResponsesTools, tool: Tool, path: str, namespace: str, *, allow_repeat: bool) -> None:
    name = flat_name(namespace, tool.name)
    if name in offered.tools:
        if allow_repeat:
            return
        raise RequestError(f"{path}: there are two tools named {name[:80]!r}", param=f"{path}.name")
    offered.tools[name] = msgspec.structs.replace(tool, name=name, deferred=allow_repeat)
    if namespace:
        offered.namespaces[name] = namespace


def read_tool_choice(source: dict[str, JSON], offered: ResponsesTools) -> ToolChoice:
    """Read `tool_choice`. Raises `RequestError`."""
    choice = _read_choice(source.get("tool_choice"), offered)
    for name in choice.names:
        if not offered.has(name):
            raise RequestError(f"Tool choice {name[:80]!r} not found in 'tools' parameter.", param="tool_choice")
    if choice.mode == "required" and not (offered.tools or offered.provider_tools):
        raise RequestError("tool_choice: a call is required but no tools are offered", param="tool_choice")
    return choice


def _read_choice(value: JSON, offered: ResponsesTools) -> ToolChoice:
    match value:
        case None:
            return AUTO
        case "auto" | "none" | "required":
            return msgspec.convert({"mode": value}, ToolChoice)
        case {"type": "allowed_tools", "tools": list(listed)}:
            names = [_read_allowed_name(item, offered) for item in listed if isinstance(item, dict)]
            found = tuple(name for name in names if name)
            required = value.get("mode") == "required"
            return ToolChoice("required" if required else "auto", found) if found else ToolChoice("none")
        case {"type": str(kind)}:
            if not (name := _read_chosen_name(value) or offered.find_hosted(kind)):
                raise field_error(value, "an object that names a tool", "tool_choice")
            return ToolChoice("required", (name,))
        case _:
            raise field_error(value, "'none', 'auto', 'required' or an object that names a tool", "tool_choice")


def _read_allowed_name(value: dict[str, JSON], offered: ResponsesTools) -> str:
    """Read the name of an allowed tool; empty for a hosted tool that is not offered."""
    hosted = offered.find_hosted(str(value.get("type")))
    return _read_chosen_name(value) or (hosted if offered.has(hosted) else "")


def _read_chosen_name(value: dict[str, JSON]) -> str:
    """Read the name in `{type, name, namespace?}`, or in the Chat API's form; empty for a hosted tool."""
    match value:
        case {"type": "function" | "custom", "name": str(name)}:
            space = value.get("namespace")
            return flat_name(space if isinstance(space, str) else "", name)
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}}:
            return name
        case _:
            return ""
