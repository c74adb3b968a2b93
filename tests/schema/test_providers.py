"""Schemas converted for providers: every admitted value stays admitted."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.schema.providers import as_object, for_gemini, is_closed

A = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
B = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a", "b"]}


@pytest.mark.parametrize("schema", [None, True, [], "x", {}])
def test_a_schema_without_an_object_becomes_an_empty_object_schema(schema):
    assert {"type": "object", "properties": {}} == as_object(schema)


@pytest.mark.parametrize("schema", [A, {"type": "object"}, {**A, "additionalProperties": False, "x-order": 1}])
def test_a_plain_object_schema_stays_as_it_is(schema):
    assert schema is as_object(schema)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": ["object", "null"], "description": "d"}, {"type": "object", "properties": {}, "description": "d"}),
        (
            {"description": "d", "anyOf": [A, B]},
            {
                "type": "object",
                "description": "d",
                "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "b": {"type": "string"}},
                "required": ["a"],
            },
        ),
        ({**A, "oneOf": [{"required": ["b"]}, {}]}, A),
        ({"allOf": [A, {"required": ["b"]}]}, {**A, "required": ["a", "b"]}),
        ({"type": "object", "anyOf": "nonsense"}, {"type": "object", "properties": {}}),
        ({**A, "not": {"required": ["b"]}, "enum": [{}]}, A),
    ],
)
def test_alternatives_on_top_become_one_object(schema, expected):
    assert expected == as_object(schema)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"$schema": "x", "type": "object", "properties": {"a": {"const": 1}}},
            {"type": "object", "properties": {"a": {"enum": [1]}}},
        ),
        ({"oneOf": [{"type": "string", "pattern": "x"}]}, {"anyOf": [{"type": "string"}]}),
        ({"definitions": {"d": A}, "$ref": "#/definitions/d"}, {"$defs": {"d": A}, "$ref": "#/$defs/d"}),
        ({"items": {"not": {}, "type": "string"}}, {"items": {"type": "string"}}),
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {}),
        (
            {"properties": {"const": {"type": "string"}, "not": {}}},
            {"properties": {"const": {"type": "string"}, "not": {}}},
        ),
        (True, True),
    ],
)
def test_gemini_gets_the_keywords_that_it_documents(schema, expected):
    assert expected == for_gemini(schema)


_keywords = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "string", "integer", ["object", "null"]]),
        "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
        "additionalProperties": st.booleans(),
        "const": st.integers(0, 2),
        "enum": st.lists(st.integers(0, 2), min_size=1, max_size=2),
        "pattern": st.just("^a"),
        "exclusiveMinimum": st.integers(0, 2),
    },
)


def _grown(inner):
    return st.builds(
        lambda plain, grown: {**plain, **grown},
        _keywords,
        st.fixed_dictionaries(
            {},
            optional={
                "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
                "patternProperties": st.dictionaries(st.just("^a"), inner, max_size=1),
                "items": inner,
                "anyOf": st.lists(inner, min_size=1, max_size=2),
                "oneOf": st.lists(inner, min_size=1, max_size=2),
                "allOf": st.lists(inner, min_size=1, max_size=2),
                "not": inner,
            },
        ),
    )


_schemas = st.recursive(_keywords, _grown, max_leaves=6)
_values = st.recursive(
    st.integers(0, 3) | st.sampled_from(["", "a", "b"]) | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def admits(schema, value):
    return jsonschema.Draft202012Validator(schema).is_valid(value)


@given(_schemas, st.dictionaries(st.sampled_from("abc"), _values, max_size=3))
def test_admitted_arguments_stay_admitted(schema, arguments):
    if admits(schema, arguments):
        assert admits(as_object(schema), arguments)


@given(_schemas, _values)
def test_admitted_values_stay_admitted_for_gemini(schema, value):
    if admits(schema, value):
        assert admits(for_gemini(schema), value)


@pytest.mark.parametrize(
    ("schema", "closed", "strict"),
    [
        (None, True, True),
        ({"type": "object"}, False, False),
        ({**A, "additionalProperties": False}, True, True),
        ({**A, "additionalProperties": False, "required": []}, True, False),
        ({**A, "additionalProperties": False, "properties": {"a": {"type": "array", "items": A}}}, False, False),
        ({"$defs": {"d": A}, "type": "string"}, False, False),
        ({"anyOf": [{"type": "string"}, A]}, False, False),
    ],
)
def test_strict_tools_are_closed_everywhere(schema, closed, strict):
    assert (closed, strict) == (is_closed(schema, all_required=False), is_closed(schema, all_required=True))
