"""Untyped text, converted by its schema."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.schema.coerce import coerce
from fcshim.schema.expect import ANY, compile_schema
from fcshim.schema.untyped_text import read_untyped_text
from tests.schema.generate import SCALARS, roots, texts, validates

VECTORS = json.loads((Path(__file__).parent / "vectors" / "untyped_text.json").read_text("utf-8"))
CASES = [
    pytest.param(vector["schema"], text, expected, id=f"{vector['name']}: {text}")
    for vector in VECTORS
    for text, expected in vector["cases"]
]
TEXTS = texts() | st.sampled_from([value for value in SCALARS if isinstance(value, str)]) | st.text(max_size=5)


@pytest.mark.parametrize(("schema", "text", "expected"), CASES)
def test_text_becomes_a_value(schema, text, expected):
    assert expected == read_untyped_text(compile_schema(schema), text)


@given(schema=roots(), text=TEXTS)
def test_any_text_becomes_strict_json_that_needs_no_coercion(schema, text):
    expectation = compile_schema(schema)
    literal = read_untyped_text(expectation, text)

    assert coerce(expectation, json.loads(literal), literal) is None


@given(schema=roots(), text=texts().filter(lambda text: not text.startswith('"')))
def test_json_that_the_schema_admits_is_kept_byte_for_byte(schema, text):
    assert validates(schema, json.loads(text)) is not True or text == read_untyped_text(compile_schema(schema), text)


@given(schema=roots(), text=st.sampled_from(["a", "A", "b", "", "[", "Null", "é\n"]))
def test_text_that_is_not_json_is_the_string_that_the_schema_admits(schema, text):
    literal = read_untyped_text(compile_schema(schema), text)

    assert validates(schema, text) is not True or text == json.loads(literal)


@given(text=st.text())
def test_text_is_kept_where_only_a_string_fits(text):
    expectation = compile_schema({"type": "string"})

    assert expectation.only_strings
    assert text == json.loads(read_untyped_text(expectation, text))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "null"]},
        {"enum": ["a"]},
        {"type": "string", "const": "a"},
        {},
        True,
        False,
        {"type": "object"},
    ],
)
def test_other_schemas_do_not_require_a_string(schema):
    assert not compile_schema(schema).only_strings


def test_a_schema_that_admits_anything_does_not_require_a_string():
    assert not ANY.only_strings


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 2, "pattern": "(a+)+$"},
        {"anyOf": [{"type": "string"}, {"type": "string", "format": "date"}]},
        {"anyOf": [{"type": "string"}, {"enum": ["a"]}]},
        {"allOf": [{"type": ["string", "null"]}, {"type": "string"}]},
        {"$ref": "#/$defs/s", "$defs": {"s": {"type": "string"}}},
    ],
)
def test_a_string_is_required_where_any_string_and_nothing_else_fits(schema):
    assert compile_schema(schema).only_strings
