"""The tools of a request: function declarations become `Tool`s; tools that Google runs are dropped.

Rule: a declaration has its schema in one of two fields, as OpenAPI or as JSON Schema. A tool choice may only name
offered functions.
"""

from fcshim.codecs.fields import expect, field_error, read_tool_name
from fcshim.codecs.gemini.field_names import get_field, other_fields, take_field
from fcshim.codecs.limits import MAX_NOTES, RequestLimits, check_tools
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import AUTO, Tool, ToolChoice, as_tools
from fcshim.schema.limits import exceeds_depth
from fcshim.schema.openapi import from_openapi


def read_tools(source: dict[str, JSON], limits: RequestLimits) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Read the function declarations of all `tools`; return them, and notes about dropped tools that Google runs."""
    tools = []
    notes = []
    items = get_field(source, "tools")
    for position, item in enumerate([] if items is None else expect(items, list, "tools")):
        tool = expect(item, dict, f"tools[{position}]")
        google_tools = other_fields(tool, ("functionDeclarations",))
        notes += [f"the tool {name[:80]!r} runs at Google and is left out" for name in google_tools]
        for index, declaration in enumerate(take_field(tool, "functionDeclarations", list, [], f"tools[{position}].")):
            path = f"tools[{position}].functionDeclarations[{index}]"
            tools.append(_read_tool(expect(declaration, dict, path), path, limits))
    check_tools(tools, limits)
    return as_tools(tools), tuple(notes[:MAX_NOTES])


def _read_tool(declaration: dict[str, JSON], path: str, limits: RequestLimits) -> Tool:
    name = read_tool_name(declaration, path)
    schema = take_field(declaration, "parametersJsonSchema", dict, None, f"{path}.")
    if schema is None:
        schema = take_field(declaration, "parameters", dict, None, f"{path}.")
        if exceeds_depth(schema, limits.schema_depth):
            raise RequestError(f"{path}.parameters: the schema is nested too deeply", param=f"{path}.parameters")
        schema = from_openapi(schema)
    return Tool(name, take_field(declaration, "description", str, "", f"{path}."), schema)


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
