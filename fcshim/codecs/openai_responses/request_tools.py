"""The tools of a request: functions, custom tools and namespaces become `Tool`; hosted tools are left out.

Rule: a tool in a namespace is known to the model by both names; a custom tool is a function with one string. What we
cannot run is never offered, never an error, and noted.
Neighbours: `request` calls this; `style` remembers what becomes of the names.
"""

import msgspec

from fcshim.codecs.fields import expect, field_error
from fcshim.codecs.limits import RequestLimits, check_tools
from fcshim.codecs.openai_chat.request_tools import read_custom, read_function
from fcshim.codecs.openai_responses.client_options import ResponsesClientOptions, flat_name
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import AUTO, Tool, ToolChoice, as_tools


class ResponsesTools(msgspec.Struct):
    """What a request offers, while its lists of tools are read."""

    tools: dict[str, Tool] = {}
    custom: set[str] = set()
    namespaces: dict[str, str] = {}
    hosted: list[str] = []

    def client_options(self) -> ResponsesClientOptions:
        """Give what calls must be turned back into."""
        return ResponsesClientOptions(custom=frozenset(self.custom), namespaces=self.namespaces)


def read_tools(listed: list[JSON], loaded: list[JSON], limits: RequestLimits) -> ResponsesTools:
    """Read `tools`, and those that input items brought, which may come again. Raises `RequestError`."""
    offer = ResponsesTools()
    for position, tool in enumerate(listed):
        _read_tool(offer, expect(tool, dict, f"tools[{position}]"), f"tools[{position}]", "")
    for tool in loaded:
        if isinstance(tool, dict):
            _read_tool(offer, tool, "tools", "", allow_repeat=True)
    check_tools(tuple(offer.tools.values()), limits)
    as_tools(tuple(offer.tools.values()))
    return offer


def _read_tool(
    offer: ResponsesTools, tool: dict[str, JSON], place: str, namespace: str, *, allow_repeat: bool = False
) -> None:
    match tool.get("type"):
        case "function":
            inner = tool.get("function")  # the Chat API's form, which some clients send here too
            _add_tool(
                offer,
                read_function(inner if isinstance(inner, dict) else tool, place),
                place,
                namespace,
                allow_repeat=allow_repeat,
            )
        case "custom":
            made = read_custom(tool, place)
            offer.custom.add(flat_name(namespace, made.name))
            _add_tool(offer, made, place, namespace, allow_repeat=allow_repeat)
        case "namespace" if not namespace:
            _read_namespace(offer, tool, place, allow_repeat=allow_repeat)
        case kind:
            offer.hosted.append(str(kind)[:80])


def _read_namespace(offer: ResponsesTools, tool: dict[str, JSON], place: str, *, allow_repeat: bool) -> None:
    """Take the tools of a namespace; its own description goes to the first of them."""
    name = expect(tool.get("name"), str, f"{place}.name")
    if "=" in name or name.split() != [name]:
        raise field_error(name, "a name without blanks", f"{place}.name")
    about = tool.get("description")
    for position, inner in enumerate(expect(tool.get("tools"), list, f"{place}.tools")):
        within = f"{place}.tools[{position}]"
        known = dict(expect(inner, dict, within))
        if position == 0 and isinstance(about, str) and about:
            own = known.get("description")
            known["description"] = f"{about}\n{own}" if isinstance(own, str) and own else about
        _read_tool(offer, known, within, name, allow_repeat=allow_repeat)


def _add_tool(offer: ResponsesTools, tool: Tool, place: str, namespace: str, *, allow_repeat: bool) -> None:
    name = flat_name(namespace, tool.name)
    if name in offer.tools:
        if allow_repeat:
            return
        raise RequestError(f"{place}: there are two tools named {name[:80]!r}", param=f"{place}.name")
    offer.tools[name] = msgspec.structs.replace(tool, name=name)
    if namespace:
        offer.namespaces[name] = namespace


def read_tool_choice(source: dict[str, JSON], offer: ResponsesTools) -> ToolChoice:
    """Read `tool_choice`; a hosted tool cannot be forced, so that choice is free. Raises `RequestError`."""
    choice = _read_choice(source.get("tool_choice"))
    for name in choice.names:
        if name not in offer.tools:
            raise RequestError(f"Tool choice {name[:80]!r} not found in 'tools' parameter.", param="tool_choice")
    if choice.mode == "required" and not offer.tools:
        if offer.hosted:
            return AUTO
        raise RequestError("tool_choice: a call is required but no tools are offered", param="tool_choice")
    return choice


def _read_choice(value: JSON) -> ToolChoice:
    match value:
        case None:
            return AUTO
        case "auto" | "none" | "required":
            return msgspec.convert({"mode": value}, ToolChoice)
        case {"type": "allowed_tools", "tools": list(listed)}:
            names = [_read_chosen_name(item) for item in listed if isinstance(item, dict)]
            found = tuple(name for name in names if name)
            required = value.get("mode") == "required"
            return ToolChoice("required" if required else "auto", found) if found else ToolChoice("none")
        case {"type": "function" | "custom"}:
            if not (name := _read_chosen_name(value)):
                raise field_error(value, "an object that names a tool", "tool_choice")
            return ToolChoice("required", (name,))
        case {"type": str()}:
            return AUTO
        case _:
            raise field_error(value, "'none', 'auto', 'required' or an object that names a tool", "tool_choice")


def _read_chosen_name(value: dict[str, JSON]) -> str:
    """Give the name in `{type, name, namespace?}`, or in the Chat API's form; empty for a hosted tool."""
    match value:
        case {"type": "function" | "custom", "name": str(name)}:
            space = value.get("namespace")
            return flat_name(space if isinstance(space, str) else "", name)
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}}:
            return name
        case _:
            return ""
