"""Conditions of schemas: `not`, `if`, what depends on a member, and what an array contains."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fcshim.constrain.calls import grammar_of_document
from fcshim.constrain.conditions import with_unions
from fcshim.parse.dialects import FUNCTION_CALL
from tests.constrain.matcher import Matcher

KIND = {"kind": {"enum": ["file", "text"]}, "path": {"type": "string"}, "size": {"type": "integer"}}
CARD = {"type": "object", "properties": {"name": {"type": "string"}, "card": {"type": "integer"}}}

CASES = [
    ({"type": "object", "properties": {"a": {"not": {"type": "string"}}}, "required": ["a"]}, [{"a": "x"}], [{"a": 1}]),
    ({"type": ["string", "null"], "not": {"type": ["null"]}}, [None], ["x"]),
    ({**CARD, "not": {"required": ["card"]}}, [{"name": "a", "card": 1}], [{"name": "a"}]),
    ({**CARD, "dependentRequired": {"card": ["name"]}}, [{"card": 1}], [{}, {"name": "a"}, {"name": "a", "card": 1}]),
    ({**CARD, "dependencies": {"card": ["name"]}}, [{"card": 1}], [{"name": "a", "card": 1}]),
    (
        {**CARD, "dependentSchemas": {"card": {"required": ["name"]}}},
        [{"card": 1}],
        [{"name": "a"}, {"name": "a", "card": 1}],
    ),
    ({"dependentRequired": {"b": ["a"]}}, [{"b": 1}, {"b": 1, "c": 2}], [{}, {"c": 1}, {"a": 1, "b": 1}, "text", 5]),
    ({"type": "string", "if": True, "then": {"const": "a"}, "else": {"const": "b"}}, ["b"], ["a"]),
    ({"type": "string", "if": False, "then": {"const": "a"}, "else": {"const": "b"}}, ["a"], ["b"]),
    (
        {
            "type": "object",
            "properties": KIND,
            "required": ["kind"],
            "additionalProperties": False,
            "if": {"properties": {"kind": {"const": "file"}}},
            "then": {"required": ["path"]},
            "else": {"required": ["size"]},
        },
        [{"kind": "file"}, {"kind": "text", "path": "a"}],
        [{"kind": "file", "path": "a"}, {"kind": "text", "size": 3}, {"kind": "text", "path": "a", "size": 3}],
    ),
    ({"type": "array", "contains": {"const": 5}}, [[], [1, 2]], [[5], [1, 5], [5, 1, 5]]),
    (
        {"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 9}, "minContains": 2},
        [[9, 1], ["x", 9, 9]],
        [[9, 10], [1, 9, 2, 9, 3]],
    ),
    ({"type": "array", "contains": {"const": 5}, "minContains": 0}, [], [[], [1]]),
    (
        {"type": "array", "contains": {"const": 5}, "maxContains": 2},
        [[], [1, 2], [5, 5, 5], [5, 1, 5, 5]],
        [[5], [1, 5, "x", 5, 2], [5, 5]],
    ),
    (
        {"type": "array", "contains": {"type": "string"}, "minContains": 0, "maxContains": 1},
        [["a", "b"], ["a", 1, "b"]],
        [[], [1, 2], ["a"], [1, "a", 2]],
    ),
    (
        {"type": "array", "items": {"const": 5}, "contains": {"const": 5}, "minContains": 2, "maxContains": 3},
        [[5], [5, 5, 5, 5], [1, 5, 5]],
        [[5, 5], [5, 5, 5]],
    ),
    ({"type": "array", "contains": {"const": 5}, "minContains": 0, "maxContains": 0}, [[5], [1, 5]], [[], [1]]),
    (
        {"type": ["string", "null"], "not": {"enum": ["ab", "b", ""]}},
        ["ab", "b", ""],
        ["a", "abc", "c", "bb", '"', "\n", "a\t", "é", "Ω", "<a", None],
    ),
    ({"type": ["string", "number"], "not": {"const": "\n"}}, ["\n"], ["", "\n\n", "n", "\t", 5]),
    ({"not": {"enum": ["a", 1, False, None, 2.5]}}, ["a", 1, False, None, 2.5], ["b", 0, 2, 3, 1.5, True, [], {}]),
    ({"enum": ["a", "b", "c"], "not": {"const": "b"}}, ["b"], ["a", "c"]),
    (
        {
            "type": "object",
            "properties": {"kind": {"type": "string"}, "path": {"type": "string"}},
            "if": {"properties": {"kind": {"const": "file"}}, "required": ["kind"]},
            "then": {"required": ["path"]},
        },
        [{"kind": "file"}],
        [{"kind": "file", "path": "a"}, {"kind": "text"}, {"kind": "files"}, {"path": "a"}, {}],
    ),
    (
        {**CARD, "oneOf": [{"required": ["name"]}, {"required": ["card"]}]},
        [{}, {"name": "a", "card": 1}],
        [{"name": "a"}, {"card": 1}],
    ),
    ({"oneOf": [{"type": "number"}, {"minimum": 5}]}, [6], [1, "a", None]),
    ({"oneOf": [{"type": "string"}, {"const": "abc"}, {"type": "null"}]}, ["abc"], ["ab", None]),
]


@pytest.mark.parametrize(("schema", "refused", "admitted"), CASES)
def test_what_a_condition_excludes_is_not_written(schema, refused, admitted):
    grammar = grammar_of_document(schema, FUNCTION_CALL)
    matcher, validator = Matcher(grammar), Draft202012Validator(schema)

    assert [] == [value for value in refused if matcher.admits(json.dumps(value))]
    assert [] == [value for value in admitted if not matcher.admits(json.dumps(value))]
    assert [] == [note for note in grammar.notes if "not enforced" in note]
    if "dependencies" not in schema:  # of draft 7
        assert not any(map(validator.is_valid, refused))
        assert all(map(validator.is_valid, admitted))


CONDITIONS = [
    *({"minimum": 5}, {"maximum": 5}, {"exclusiveMinimum": 5}, {"exclusiveMaximum": 5}, {"minimum": 2, "maximum": 7}),
    *({"minLength": 2}, {"maxLength": 2}, {"minLength": 0}, {"minItems": 2}, {"maxItems": 1}, {"minProperties": 1}),
    *({"type": "number"}, {"type": ["string", "null"]}, {"type": "number", "minimum": 5}, {"title": "all"}),
    *({"required": ["a"]}, {"required": ["a", "b"]}, {"required": []}, {"properties": {"a": {"type": "number"}}}),
    *(
        {"required": ["a"], "properties": {"a": {"minimum": 5}}},
        {"properties": {"a": {}}},
        {"properties": {"a": False}},
    ),
    *(
        {"not": {"minimum": 5}},
        {"allOf": [{"minimum": 2}, {"maximum": 7}]},
        {"anyOf": [{"maximum": 2}, {"minimum": 7}]},
    ),
]
EXAMPLES: list = [
    *(0, 1, 2, 3, 5, 6, 7, 9, -3, 5.5, 2.25, "", "a", "ab", "abc", None, True, [], [1], [1, 2], [1, 2, 3]),
    *({}, {"a": 1}, {"a": 9}, {"a": "x"}, {"b": 1}, {"a": 5, "b": 2}),
]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(
    "frame",
    [
        lambda condition: {"not": condition},
        lambda condition: {
            "if": condition,
            "then": {"type": ["number", "string"]},
            "else": {"type": ["array", "object"]},
        },
        lambda condition: {"if": condition, "else": {"not": {"type": "object"}}},
    ],
    ids=["not", "if", "else"],
)
def test_a_condition_admits_what_the_schema_admits(frame, condition):
    schema = frame(condition)
    grammar = grammar_of_document(schema, FUNCTION_CALL)
    matcher, validator = Matcher(grammar), Draft202012Validator(schema)
    valid = list(filter(validator.is_valid, EXAMPLES))

    assert (valid or EXAMPLES) == [value for value in EXAMPLES if matcher.admits(json.dumps(value))]
    assert [] == [note for note in grammar.notes if "not enforced" in note]


@pytest.mark.parametrize(
    ("schema", "note"),
    [
        ({"not": {"type": "integer"}}, "not is not enforced"),
        ({"not": {"multipleOf": 5}}, "not is not enforced"),
        ({"not": {"type": [[]], "required": [5]}}, "not is not enforced"),
        ({"not": {"allOf": [{"minimum": 5}, {"pattern": "a"}]}}, "not is not enforced"),
        ({"if": {"pattern": "a"}, "then": {"maxLength": 9}}, "if is not enforced"),
        ({"if": {"minimum": 5, "type": "integer"}, "then": {"maximum": 9}}, "if is not enforced"),
        ({"type": "array", "contains": {"const": 5}, "maxItems": 3}, "contains is not enforced"),
        ({"type": "array", "contains": {"multipleOf": 5}, "maxContains": 3}, "maxContains is not enforced"),
        (
            {"type": "array", "contains": {"pattern": "a"}, "minContains": 0, "maxContains": 3},
            "contains is not enforced",
        ),
        ({"not": {"const": {"a": 1}}}, "not is not enforced"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"const": []}}}}, "not is not enforced"),
        ({"anyOf": [{"type": "string"}, {"not": {"const": []}}]}, "not is not enforced"),
        ({"not": {"enum": [1, 2, 3, 4, 5]}}, "not is not enforced"),
        ({"type": "string", "maxLength": 9, "not": {"const": "a"}}, "not is not enforced"),
        ({"type": "string", "pattern": "^[ab]+$", "not": {"const": "a"}}, "not is not enforced"),
        ({"type": "string", "not": {"const": "a" * 2_000}}, "not is not enforced"),
        ({"oneOf": [{"pattern": "a"}, {"maxLength": 9}]}, "oneOf is enforced as anyOf"),
        (
            {"oneOf": [{"required": list("abcdef")}, {"required": list("abghij")}, {"required": list("klm")}]},
            "oneOf is enforced as anyOf",
        ),
        ({"type": "array", "prefixItems": [True], "contains": {"const": 5}}, "contains is not enforced"),
    ],
)
def test_a_note_says_what_is_not_enforced(schema, note):
    assert note in grammar_of_document(schema, FUNCTION_CALL).notes


def test_a_schema_without_conditions_stays_itself():
    schema = {"properties": {"a": {"anyOf": [{"type": "string"}]}}, "enum": [{"not": True}], "default": {"if": 1}}

    assert schema is with_unions(schema)


SMALL = st.recursive(
    st.sampled_from(
        [True, False, {}, {"type": "string"}, {"type": ["integer", "null"]}, {"const": "a"}, {"enum": [1, "b"]}]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "properties": st.dictionaries(st.sampled_from("ab"), inner),
            "required": st.just(["a"]),
            "dependentRequired": st.just({"b": ["a"]}),
            "dependentSchemas": st.dictionaries(st.sampled_from("ab"), inner),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=3),
        },
    ),
    max_leaves=6,
)
VALUES = [None, 1, "a", "b", [], {}, {"a": "a"}, {"b": 1}, {"a": 1, "b": "a"}, {"a": None, "c": 2}]


@given(SMALL)
def test_the_unions_admit_the_same_values(schema):
    before, after = Draft202012Validator(schema), Draft202012Validator(with_unions(schema))

    assert [before.is_valid(value) for value in VALUES] == [after.is_valid(value) for value in VALUES]
