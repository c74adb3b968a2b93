"""Conversion of Gemini's schemas to JSON Schema."""

import pytest

from fcshim.schema.openapi import from_openapi


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ({"type": "STRING", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "STRING", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "STRING", "nullable": False}, {"type": "string"}),
        ({"anyOf": [{"type": "STRING"}], "nullable": True}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (
            {"type": "ARRAY", "items": {"type": "NUMBER"}, "minItems": "1", "max_items": 3},
            {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 3},
        ),
        (
            {
                "type": "OBJECT",
                "properties": {"type": {"type": "STRING"}},
                "propertyOrdering": ["type"],
                "required": ["type"],
            },
            {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
        ),
        ({"any_of": [{"type": "STRING"}]}, {"anyOf": [{"type": "string"}]}),
        (
            {"$defs": {"x": {"type": "STRING"}}, "$ref": "#/$defs/x"},
            {"$defs": {"x": {"type": "string"}}, "$ref": "#/$defs/x"},
        ),
        ({"type": "STRING", "example": "x", "description": "d"}, {"type": "string", "description": "d"}),
        ({"minItems": "many"}, {"minItems": "many"}),
    ],
)
def test_a_gemini_schema_becomes_json_schema(given, expected):
    assert expected == from_openapi(given)
