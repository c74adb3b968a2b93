"""The tools of a request: tools that the client runs become `Tool`s; the provider's own tools are dropped.

Rule: a deferred tool is offered only after a tool reference in the history has loaded it. Claude Code sends deferred
placeholders that must never be called.
"""

from collections.abc import Collection

from fcshim.codecs.fields import expect, field_error, read_field, read_tool_name
from fcshim.codecs.limits import MAX_NOTES, RequestLimits, check_tools
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import AUTO, Tool, ToolChoice, as_tools


def read_tools(
    source: dict[str, JSON], loaded_tools: Collection[str], limits: RequestLimits
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Read `tools`; `loaded_tools` are the names of deferred tools that the history has loaded.

    Returns the tools, and notes about dropped tools that only the provider can run. Deferred tools need no note.
    """
    tools = []
    notes = []
    for position, item in enumerate(read_field(source, "tools", list, [])):
        path = f"tools.{position}"
        tool = expect(item, dict, path)
        if tool.get("type") not in (None, "custom"):
            notes.append(f"the tool {str(tool.get('name', tool['type']))[:80]!r} runs at the provider and is left out")
        elif _is_offered(tool, loaded_tools):
            tools.append(_read_tool(tool, path))
    check_tools(tools, limits)
    return as_tools(tools), tuple(notes[:MAX_NOTES])


def _is_offered(tool: dict[str, JSON], loaded_tools: Collection[str]) -> bool:
    """Tell whether the model may call a tool now.

    It must be loaded, and callable by the model itself instead of only by code that the provider runs.
    """
    callers = tool.get("allowed_callers")
    if isinstance(callers, list) and "direct" not in callers:
        return False
    return tool.get("defer_loading") is not True or tool.get("name") in loaded_tools


def _read_tool(tool: dict[str, JSON], path: str) -> Tool:
    return Tool(
        name=read_tool_name(tool, path),
        description=read_field(tool, "description", str, "", f"{path}."),
        parameters=read_field(tool, "input_schema", dict, None, f"{path}."),
        strict=read_field(tool, "strict", bool, False, f"{path}."),  # noqa: FBT003  # the default of a field
    )


def read_tool_choice(source: dict[str, JSON], tools: tuple[Tool, ...]) -> tuple[ToolChoice, bool]:
    """Read `tool_choice`; return it, and whether parallel calls are allowed."""
    value = read_field(source, "tool_choice", dict, {})
    parallel = not read_field(value, "disable_parallel_tool_use", bool, False, "tool_choice.")  # noqa: FBT003  # as above
    return _read_choice(value, source, {tool.name for tool in tools}), parallel


def _read_choice(value: dict[str, JSON], source: dict[str, JSON], offered: set[str]) -> ToolChoice:
    match value.get("type", "auto"):
        case "auto":
            return AUTO
        case "none":
            return ToolChoice("none")
        case "any":
            if not source.get("tools"):
                raise RequestError("tool_choice: a call is required but no tools are offered", param="tool_choice")
            return ToolChoice("required") if offered else AUTO
        case "tool":
            return _read_named_choice(expect(value.get("name"), str, "tool_choice.name"), source, offered)
        case kind:
            raise field_error(kind, "'auto', 'any', 'tool' or 'none'", "tool_choice.type")


def _read_named_choice(name: str, source: dict[str, JSON], offered: set[str]) -> ToolChoice:
    """Choose one tool. If the request has it but it is not offered, the choice is free."""
    if name in offered:
        return ToolChoice("required", (name,))
    if any(isinstance(tool, dict) and tool.get("name") == name for tool in source.get("tools") or ()):
        return AUTO
    raise RequestError(f"tool_choice: there is no tool named {name[:80]!r}", param="tool_choice")
