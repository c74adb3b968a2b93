"""The tools of a request: function declarations become `Tool`s; what Google would run is left out.

Rule: a declaration has its schema in one of two fields, OpenAPI's or JSON Schema; a choice names only what is offered.
Neighbours: `request` calls this; `schema.openapi` turns the one schema into the other.
"""

import re

from fcshim.codecs.fields import expect, field_error
from fcshim.codecs.gemini.field_names import get_field, other_fields, take_field
from fcshim.codecs.limits import MAX_NOTES, RequestLimits, check_tools
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import AUTO, Tool, ToolChoice, as_tools
from fcshim.schema.limits import exceeds_depth
from fcshim.schema.openapi import from_openapi

_VALID_NAME = re.compile(r"[\w.:/-]{1,128}")


def read_tools(source: dict[str, JSON], limits: RequestLimits) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Read the function declarations of all `tools`; give with them what has to be noted: tools that Google runs."""
    tools = []
    notes = []
    listed = get_field(source, "tools")
    for position, item in enumerate([] if listed is None else expect(listed, list, "tools")):
        tool = expect(item, dict, f"tools[{position}]")
        left_out = other_fields(tool, ("functionDeclarations",))
        notes += [f"the tool {name[:80]!r} is Google's own, and left out" for name in left_out]
        for at, declared in enumerate(take_field(tool, "functionDeclarations", list, [], f"tools[{position}].")):
            place = f"tools[{position}].functionDeclarations[{at}]"
            tools.append(_read_tool(expect(declared, dict, place), place, limits))
    check_tools(tools, limits)
    return as_tools(tools), tuple(notes[:MAX_NOTES])


def _read_tool(declared: dict[str, JSON], path: str, limits: RequestLimits) -> Tool:
    name = expect(declared.get("name"), str, f"{path}.name")
    if not _VALID_NAME.fullmatch(name):
        raise field_error(name, "1 to 128 letters, digits or _ - . : /", f"{path}.name")
    schema = take_field(declared, "parametersJsonSchema", dict, None, f"{path}.")
    if schema is None:
        schema = take_field(declared, "parameters", dict, None, f"{path}.")
        if exceeds_depth(schema, limits.schema_depth):
            raise RequestError(f"{path}.parameters: the schema is nested too deeply", param=f"{path}.parameters")
        schema = from_openapi(schema)
    return Tool(name, take_field(declared, "description", str, "", f"{path}."), schema)


def read_tool_choice(source: dict[str, JSON], tools: tuple[Tool, ...]) -> ToolChoice:
    """Read `toolConfig`. The mode VALIDATED is AUTO here: arguments are checked in every mode."""
    config = take_field(source, "toolConfig", dict, {})
    calling = take_field(config, "functionCallingConfig", dict, {}, "toolConfig.")
    place = "toolConfig.functionCallingConfig"
    names = tuple(
        expect(name, str, f"{place}.allowedFunctionNames[{at}]")
        for at, name in enumerate(take_field(calling, "allowedFunctionNames", list, [], f"{place}."))
    )
    offered = {tool.name for tool in tools}
    for name in names:
        if name not in offered:
            raise RequestError(f"{place}: there is no function named {name[:80]!r}", param=place)
    match take_field(calling, "mode", str, "AUTO", f"{place}.").upper():
        case "AUTO" | "VALIDATED" | "MODE_UNSPECIFIED":
            return ToolChoice("auto", names) if names else AUTO
        case "NONE":
            return ToolChoice("none")
        case "ANY":
            return ToolChoice("required", names) if tools else AUTO
        case mode:
            raise field_error(mode, "'AUTO', 'ANY', 'NONE' or 'VALIDATED'", f"{place}.mode")
