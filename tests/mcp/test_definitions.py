"""Servers' tool definitions, converted for every model."""

import pytest
from mcp.types import Tool as ServerTool

from fcshim.mcp import McpServerConfig, StdioTransport
from fcshim.mcp.definitions import define_tool, list_parameters, object_schema, repair_tool_list
from fcshim.messages import Tool
from fcshim.prompt.signature import signature
from fcshim.schema.validate import find_violations

SERVER = McpServerConfig(name="files", transport=StdioTransport(command="a"))
EMPTY = {"type": "object", "properties": {}}


def test_a_definition_is_unchanged_except_for_the_prefix():
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "$defs": {"a": {}}}
    tool = ServerTool(name="read", description="Read a file.", input_schema=schema)

    assert Tool("mcp__files__read", "Read a file.", schema) == define_tool(SERVER, tool)


def test_the_schema_of_the_result_is_kept_within_the_limits():
    """Requirement 10."""
    small, large = {"type": "object", "properties": {"a": {}}}, {"type": "object", "description": "x" * 300_000}
    tools = (ServerTool(name="t", input_schema={"type": "object"}, output_schema=each) for each in (small, large, None))

    assert [small, None, None] == [define_tool(SERVER, tool).returns for tool in tools]


def test_a_tool_without_description_gets_one():
    """Requirement 20."""
    tool = ServerTool(name="read", input_schema={"type": "object"})

    assert "The tool read of the MCP server files" == define_tool(SERVER, tool).description


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, EMPTY),
        ({}, EMPTY),
        ([], EMPTY),
        ("x", EMPTY),
        ({"type": "object"}, EMPTY),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        (
            {"type": "object", "properties": {"a": {}}, "required": ["a"], "description": "d"},
            {"type": "object", "properties": {"a": {}}, "required": ["a"], "description": "d"},
        ),
        ({"type": "string"}, {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}),
    ],
)
def test_every_schema_becomes_one_of_an_object(schema, expected):
    """Requirement 17."""
    assert expected == object_schema(schema)


@pytest.mark.parametrize(
    ("untyped", "label"),
    [
        ({}, "string"),
        (True, "string"),
        ({"description": "d"}, "string"),
        ({"title": "T", "examples": ["a"]}, "string"),
        ({"default": "x"}, "string"),
        ({"minLength": 1, "pattern": "a"}, "string"),
        ({"default": 5}, "any"),
        ({"default": None}, "any"),
        ({"enum": [1, 2]}, "any"),
        ({"anyOf": [{"type": "integer"}, {}]}, "any"),
        ({"properties": {"b": {}}}, "any"),
        ({"items": {}}, "any"),
        ({"minimum": 1}, "any"),
    ],
)
def test_a_parameter_without_a_type_is_a_string_in_the_prompt_the_display_and_the_validation(untyped, label):
    """Requirements 20 and 24."""
    schema = {"type": "object", "properties": {"a": untyped, "b": {"type": "integer"}}}
    definition = define_tool(SERVER, ServerTool(name="t", input_schema=schema))
    parameter, other = list_parameters(definition.parameters)
    refused = bool(find_violations(definition.parameters, {"a": {"b": {}}}))

    assert (label, "integer") == (parameter.type, other.type)
    assert (label == "string") == ("a: string" in signature("t", "", definition.parameters).replace("a?", "a"))
    assert refused or label == "any"
    assert definition.parameters["properties"]["a"] == (
        {"type": "string", **(untyped if isinstance(untyped, dict) else {})} if label == "string" else untyped
    )


def deep(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    "bad",
    [
        {"name": "t", "inputSchema": {"properties": {"a": deep(40)}}},
        {"name": "t", "inputSchema": {"description": "x" * 300_000}},
        {"name": "t", "description": "x" * 70_000},
        {"name": 5},
        {},
        None,
    ],
)
def test_a_tool_that_is_invalid_or_too_long_is_left_out(bad):
    listing = {"tools": [bad, {"name": "good", "inputSchema": {"properties": {"a": deep(20)}}}]}
    repair_tool_list(listing)

    assert ["good"] == [tool["name"] for tool in listing["tools"]]


def test_parameters_are_listed_for_display():
    """Requirement 20: a missing type means string; `required`, `enum` and `default` are carried."""
    schema = {
        "properties": {
            "path": {"description": "where"},
            "mode": {"type": "string", "enum": ["r", "w"], "default": "r"},
            "size": {"type": ["integer", "null"]},
            "any": {"anyOf": [{}]},
            "odd": True,
        },
        "required": ["path"],
    }
    path, mode, size, anything, odd = list_parameters(schema)

    assert ("string", "where", True, None) == (path.type, path.description, path.required, path.enum)
    assert ("string", ["r", "w"], "r", False) == (mode.type, mode.enum, mode.default, mode.required)
    assert "integer or null" == size.type
    assert "any" == anything.type
    assert "string" == odd.type


@pytest.mark.security
@pytest.mark.parametrize(
    "name", ["", " ", "\n\t", "\0", "\u200b\u2060", "\u202e", "\u00a0", "\ufeff", "\x1b", "\ud800"], ids=ascii
)
def test_a_tool_whose_name_shows_nothing_is_left_out(name):
    left_out = {}
    result = {"tools": [{"name": name, "inputSchema": {}}, {"name": "t", "inputSchema": {}}]}
    repair_tool_list(result, left_out)

    assert ["t"] == [tool["name"] for tool in result["tools"]]
    assert ["its name has no visible character"] == list(left_out.values())
