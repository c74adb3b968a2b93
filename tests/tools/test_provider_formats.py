"""Tools in the formats of the providers. Requirement 12."""

from fcshim.messages import Tool
from fcshim.tools.provider_formats import convert_tools

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
TOOL = Tool("t", "Do.", SCHEMA)


def gemini(schema):
    (made,) = convert_tools([Tool("t", "", {"type": "object", "properties": {"a": schema}})], "gemini")
    return made["functionDeclarations"][0]["parameters"]["properties"]["a"]


def test_openai():
    expected = [{"type": "function", "function": {"name": "t", "description": "Do.", "parameters": SCHEMA}}]

    assert expected == convert_tools([TOOL], "openai")


def test_anthropic():
    assert [{"name": "t", "description": "Do.", "input_schema": SCHEMA}] == convert_tools([TOOL], "anthropic")


def test_gemini():
    declaration = {"name": "t", "description": "Do.", "parameters": SCHEMA}

    assert [{"functionDeclarations": [declaration, declaration]}] == convert_tools([TOOL, TOOL], "gemini")


def test_a_tool_without_schema_gets_an_empty_one():
    (made,) = convert_tools([Tool("t")], "anthropic")

    assert {"type": "object", "properties": {}} == made["input_schema"]


def test_keywords_that_gemini_rejects_are_left_out():
    written = {"type": "object", "$schema": "x", "additionalProperties": False, "properties": {"$id": {"const": 1}}}

    assert {"type": "object", "properties": {"$id": {"enum": [1]}}} == gemini(written)


def test_gemini_gets_one_type():
    assert {"type": "string", "nullable": True} == gemini({"type": ["string", "null"]})
    assert {"anyOf": [{"type": "string"}, {"type": "integer"}]} == gemini({"type": ["string", "integer"]})
    assert {"anyOf": [{"type": "string"}]} == gemini({"oneOf": [{"type": "string", "$comment": "x"}]})


def test_references_are_inlined_for_gemini():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/x", "description": "d"}, "b": {"$ref": "http://elsewhere"}},
        "$defs": {"x": {"type": "array", "items": {"type": "string"}}},
    }
    (made,) = convert_tools([Tool("t", "", schema)], "gemini")
    properties = made["functionDeclarations"][0]["parameters"]["properties"]

    assert {"type": "array", "items": {"type": "string"}, "description": "d"} == properties["a"]
    assert {} == properties["b"]


def test_a_recursive_schema_has_an_end():
    node = {"type": "object", "properties": {name: {"$ref": "#/$defs/node"} for name in "abcdefgh"}}
    schema = {"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    (made,) = convert_tools([Tool("t", "", schema)], "gemini")

    assert str(made).count("'type'") < 3_000
