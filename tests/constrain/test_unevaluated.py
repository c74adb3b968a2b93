"""`unevaluatedProperties` and `unevaluatedItems` in each alternative of a schema."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fcshim.constrain.calls import grammar_of_document
from fcshim.constrain.keywords import EXPRESSIBLE, RELAXED
from fcshim.constrain.unevaluated import close
from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.schema.alternatives import Expansion
from tests.constrain.matcher import Matcher

A, B = ({"properties": {name: {"type": "number"}}, "required": [name]} for name in "ab")
CLOSED = {"type": "object", "unevaluatedProperties": False}


@pytest.mark.parametrize(
    ("schema", "refused", "admitted"),
    [
        ({**CLOSED, "allOf": [A, B]}, [{"a": 1}, {"a": 1, "b": 2, "c": 3}], [{"a": 1, "b": 2}]),
        ({**CLOSED, "anyOf": [A, B]}, [{}, {"a": 1, "c": 3}], [{"a": 1}, {"b": 1}, {"a": 1, "b": 2}]),
        ({**CLOSED, "oneOf": [A, B]}, [{}, {"a": 1, "b": 3}], [{"a": 1}, {"b": 1}]),
        ({**CLOSED, "$ref": "#/$defs/a", "$defs": {"a": A}}, [{"a": 1, "b": 3}], [{"a": 1}]),
        ({**CLOSED, "if": A, "then": B}, [{"a": 1}, {"b": 1}], [{}, {"a": 1, "b": 2}]),
        ({"type": "object", "unevaluatedProperties": {"type": "null"}}, [{"a": 1}], [{}, {"a": None}]),
        ({**CLOSED, "allOf": [{"additionalProperties": {"type": "null"}}]}, [{"a": 1}], [{"a": None}]),
        ({**CLOSED, "not": {"not": A}}, [{}, {"a": 1}, {"a": "x"}], []),
        ({"type": "array", "prefixItems": [True], "unevaluatedItems": False}, [[1, 2]], [[], [1]]),
        (
            {"anyOf": [{"items": {"type": "null"}}, True], "unevaluatedItems": {"const": 1}},
            [[None, 1]],
            [[None], [1, 1]],
        ),
    ],
)
def test_what_no_keyword_evaluates_is_not_written(schema, refused, admitted):
    grammar = grammar_of_document(schema, FUNCTION_CALL)
    matcher, validator = Matcher(grammar), Draft202012Validator(schema)

    assert not any(map(validator.is_valid, refused))
    assert all(map(validator.is_valid, admitted))
    assert [] == [note for note in grammar.notes if "not enforced" in note]
    assert not admitted or [] == [value for value in refused if matcher.admits(json.dumps(value))]
    assert [] == [value for value in admitted if not matcher.admits(json.dumps(value))]


@pytest.mark.parametrize(
    "schema",
    [
        {"contains": {"type": "string"}, "unevaluatedItems": False},
        {"allOf": [{"if": {"pattern": "a"}, "then": {"prefixItems": [True]}}], "unevaluatedItems": False},
        {"allOf": [{"$ref": "https://example.org/a"}], "unevaluatedItems": False},
        {"anyOf": [{"prefixItems": [True] * size} for size in range(4)], "unevaluatedItems": False},
    ],
)
def test_a_note_says_where_it_is_not_known_what_is_evaluated(schema):
    assert "unevaluatedItems is not enforced" in grammar_of_document(schema, FUNCTION_CALL).notes


def test_a_keyword_of_our_own_in_the_schema_of_a_client_does_no_harm():
    schema = {**CLOSED, **A, "x-fcshim-not-evaluated": 5, "contains": {}, "x-fcshim-not-contained": 5}

    assert Matcher(grammar_of_document(schema, FUNCTION_CALL)).admits('{"a": 1}')


def test_a_schema_beyond_the_limits_leaves_no_trace_in_the_next():
    free = {"type": "object", "anyOf": [{"required": ["a"]}, True]}
    large = {"unevaluatedItems": False, "allOf": [{"anyOf": [{"minimum": at} for at in range(99)]}] * 2}
    expansion = Expansion({}, EXPRESSIBLE, RELAXED, close)
    expected = expansion.alternatives((free,))

    assert (None, True) == (expansion.alternatives((large,)), expansion.exceeded)
    assert expected == expansion.alternatives((free,))


def _schemas(inner):
    lists = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "required": st.sampled_from([["a"], ["b"]]),
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "allOf": lists,
            "anyOf": lists,
            "unevaluatedProperties": inner,
            "unevaluatedItems": inner,
        },
    )


LEAVES = st.sampled_from([True, False, {}, {"type": "string"}, {"const": 1}])
SCHEMAS = _schemas(LEAVES | _schemas(LEAVES | _schemas(LEAVES)))
VALUES = [
    *(1, "a", [], [1], ["a"], [1, 2], ["a", "a", 1], {}, {"a": 1}, {"a": "a"}, {"b": 1}, {"a": 1, "b": 1}),
    *({"a": "a", "c": 1}, {"c": 1, "d": "a"}, {"a": [1, "a"]}, {"a": 1, "b": "a", "c": 1, "d": 1}, [{"a": 1}]),
]


@given(SCHEMAS)
def test_the_alternatives_admit_the_same_values(schema):
    expansion = Expansion(schema, EXPRESSIBLE, RELAXED, close)
    found = expansion.alternatives((schema,))
    alternatives = [[_own_keywords(part) for part in parts] for parts in ([()] if found is None else found)]
    known = [part for parts in found or () for part in parts]
    exact = found is not None and not any(
        "unevaluatedItems" in each or "unevaluatedProperties" in each for each in known
    )

    for value in VALUES:
        admitted = any(all(Draft202012Validator(part).is_valid(value) for part in parts) for parts in alternatives)
        valid = Draft202012Validator(schema).is_valid(value)
        assert valid == admitted if exact else valid <= admitted


def _own_keywords(part):
    """Leave out what the expansion has replaced, and what the grammar does not enforce."""
    return {keyword: value for keyword, value in part.items() if keyword in EXPRESSIBLE - RELAXED}
