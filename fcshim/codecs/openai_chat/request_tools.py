"""Reading the tools of a request: every form of offering and choosing tools becomes `Tool` and `ToolChoice`.

Rule: legacy functions and custom tools become plain tools; a choice may name only offered tools.
"""

import msgspec

from fcshim.codecs.fields import expect, field_error, read_field, read_tool_name
from fcshim.codecs.limits import RequestLimits, check_tools
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import AUTO, Tool, ToolChoice, as_tools

CUSTOM_ARGUMENT = "input"
"""The single string argument of a function that stands for a custom tool, which takes one text."""


def read_tools(source: dict[str, JSON], limits: RequestLimits) -> tuple[tuple[Tool, ...], frozenset[str]]:
    """Read `tools`, else the legacy `functions`; return the tools and the names of the custom tools."""
    custom: set[str] = set()
    tools: list[Tool] = []
    for position, item in enumerate(read_field(source, "tools", list, [])):
        path = f"tools[{position}]"
        tool = expect(item, dict, path)
        if tool.get("type") == "custom":
            tools.append(read_custom(expect(tool.get("custom"), dict, f"{path}.custom"), f"{path}.custom"))
            custom.add(tools[-1].name)
        elif tool.get("type", "function") == "function":
            tools.append(read_function(expect(tool.get("function"), dict, f"{path}.function"), f"{path}.function"))
        else:
            raise field_error(tool["type"], "'function' or 'custom'", f"{path}.type")
    for position, item in enumerate([] if tools else read_field(source, "functions", list, [])):
        path = f"functions[{position}]"
        tools.append(read_function(expect(item, dict, path), path))
    check_tools(tools, limits)
    return as_tools(tools), frozenset(custom)


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
    notes = [
        read_field(custom, "description", str, "", f"{path}."),
        f"The whole text is the one argument `{CUSTOM_ARGUMENT}`.",  # descriptions often forbid JSON
        _format_note(read_field(custom, "format", dict, {}, f"{path}.")),
    ]
    schema = {
        "type": "object",
        "properties": {CUSTOM_ARGUMENT: {"type": "string"}},
        "required": [CUSTOM_ARGUMENT],
        "additionalProperties": False,
    }
    return Tool(name=read_tool_name(custom, path), description="\n".join(filter(None, notes)), parameters=schema)


def _format_note(form: dict[str, JSON]) -> str:
    """Describe the format of the text; the Responses API has the grammar's fields directly in `format`."""
    grammar = form.get("grammar", form)
    definition = grammar.get("definition") if isinstance(grammar, dict) else None
    if not isinstance(definition, str):
        return ""
    return f"The input must match this {grammar.get('syntax', 'lark')} grammar:\n{definition}"


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
