"""Tools in the formats of the providers. Requirement 12."""

import json

import pytest

from fcshim.codecs.gemini import GEMINI
from fcshim.messages import Request, TextPart, Tool, UserMessage
from fcshim.tools.provider_formats import convert_tools

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
TOOL = Tool("t", "Do.", SCHEMA)


def test_openai():
    expected = [{"type": "function", "function": {"name": "t", "description": "Do.", "parameters": SCHEMA}}]

    assert expected == convert_tools([TOOL], "openai")


def test_anthropic():
    assert [{"name": "t", "description": "Do.", "input_schema": SCHEMA}] == convert_tools([TOOL], "anthropic")


def test_gemini():
    declaration = {"name": "t", "description": "Do.", "parametersJsonSchema": SCHEMA}

    assert [{"functionDeclarations": [declaration, declaration]}] == convert_tools([TOOL, TOOL], "gemini")


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"type": "object"},
        {"type": "object", "properties": {}},
        SCHEMA,
        {"type": "object", "properties": {"a": {"const": 1, "$comment": "x"}}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"oneOf": [{"type": "string"}]}}},
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/x"}},
            "$defs": {"x": {"items": {"$ref": "#/$defs/x"}}},
        },
    ],
)
def test_gemini_s_schemas_are_those_that_its_upstream_gets(schema):
    """One function writes them."""
    tool = Tool("t", "", schema)
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), tools=(tool,))
    body = json.loads(GEMINI.encode_request(request).body)

    assert body["tools"] == convert_tools([tool], "gemini")


def test_a_tool_without_schema_gets_an_empty_one():
    (made,) = convert_tools([Tool("t")], "anthropic")

    assert {"type": "object", "properties": {}} == made["input_schema"]
