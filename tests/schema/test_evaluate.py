"""The evaluation of schemas, compared with jsonschema's over random schemas and values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import extend
from referencing.exceptions import Unresolvable

from fcshim.schema.evaluate import Evaluator, UnusableSchemaError
from fcshim.schema.limits import StepLimit
from fcshim.schema.validate import first_violation
from tests.schema.generate import KEYS, SCALARS, SCHEMAS, VALUES, BoundedReferences, ReferenceLimitError, roots

_NUMBERS = st.sampled_from([-1, 0, 1, 2, 0.5, 1.5])
_COUNTS = st.integers(0, 3)


def _others(schemas):
    """Draw keywords that the common generator leaves out."""
    return st.fixed_dictionaries(
        {},
        optional={
            "const": VALUES,
            "enum": st.lists(VALUES, max_size=4),
            "uniqueItems": st.booleans(),
            "multipleOf": st.sampled_from([1, 2, 0.5, 0.1]),
            "minimum": _NUMBERS,
            "exclusiveMaximum": _NUMBERS,
            "minLength": _COUNTS,
            "maxItems": _COUNTS,
            "minProperties": _COUNTS,
            "contains": schemas,
            "minContains": _COUNTS,
            "maxContains": _COUNTS,
            "propertyNames": schemas,
            "dependentRequired": st.dictionaries(KEYS, st.lists(KEYS, max_size=2), max_size=2),
            "dependentSchemas": st.dictionaries(KEYS, schemas, max_size=2),
            "properties": st.dictionaries(KEYS, schemas, max_size=2),
            "prefixItems": st.lists(schemas, min_size=1, max_size=2),
            "oneOf": st.lists(schemas, min_size=1, max_size=3),
            "anyOf": st.lists(schemas, min_size=1, max_size=3),
            "not": schemas,
            "if": schemas,
            "then": schemas,
            "else": schemas,
        },
    )


_DISCRIMINATED = st.lists(
    st.builds(
        lambda value, inner: {"type": "object", "properties": {"b": inner, "a": {"const": value}}, "required": ["a"]},
        st.sampled_from(SCALARS),
        SCHEMAS,
    ),
    min_size=1,
    max_size=4,
)
_EVERY_KEYWORD = st.recursive(SCHEMAS, _others, max_leaves=6)
_UNEVALUATED = st.builds(
    lambda schema, rule: (
        schema | {"unevaluatedProperties": rule, "unevaluatedItems": rule} if isinstance(schema, dict) else schema
    ),
    _EVERY_KEYWORD,
    st.booleans() | st.just({"type": "string"}),
)


def _expected(schema, value):
    validator = extend(Draft202012Validator, {"$ref": BoundedReferences()})
    try:
        Draft202012Validator.check_schema(schema)
        return validator(schema).is_valid(value)
    except (SchemaError, Unresolvable, ReferenceLimitError):
        return None


def _actual(schema, value):
    try:
        return Evaluator(schema, StepLimit(1_000_000)).is_valid(schema, value)
    except UnusableSchemaError:
        return None


@given(roots() | _EVERY_KEYWORD | st.builds(lambda one: {"oneOf": one}, _DISCRIMINATED), VALUES)
def test_the_same_values_are_valid_as_in_jsonschema(schema, value):
    expected = _expected(schema, value)

    assert expected is None or expected == _actual(schema, value)


@given(_UNEVALUATED, VALUES)
def test_unevaluated_members_are_those_of_jsonschema(schema, value):
    expected = _expected(schema, value)

    assert expected is None or expected == _actual(schema, value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"patternProperties": {"(a+)+$": {}}, "additionalProperties": False}, {"a" * 40 + "!": 1}),
        ({"patternProperties": {"(a+)+$": {}}, "unevaluatedProperties": False}, {"a" * 40 + "!": 1}),
        ({"type": ["string", "no such type"]}, 5),
        ({"minimum": True, "maxLength": "4", "required": "a", "enum": {}, "properties": [], "items": 3}, {"a": 1}),
        ({"multipleOf": 0}, 5),
        ({"exclusiveMinimum": True, "minimum": 5}, 7),
        ({"$ref": 5, "allOf": {}, "anyOf": [], "oneOf": []}, 5),
        ({"$dynamicRef": "#", "format": "date"}, "x"),
        ({"allOf": [{"$ref": "base"}], "unevaluatedProperties": False, "$defs": {"a": {"$id": "base"}}}, {"a": 1}),
        ({"$dynamicRef": "#node", "unevaluatedItems": False}, [1]),
    ],
)
def test_an_unusable_keyword_constrains_nothing(schema, value):
    assert first_violation(schema, value) is None


def test_a_count_may_be_a_whole_float():
    schema = {"maxItems": 2.0, "contains": {"const": 1}, "maxContains": 1.0}

    assert [True, False, False] == [first_violation(schema, value) is None for value in ([1, 2], [1, 2, 3], [1, 1])]
    assert first_violation({"maxItems": 0.5, "minLength": float("inf"), "maxLength": -1.0}, [1]) is None


@pytest.mark.parametrize(
    ("value", "divisor"), [(1e308, 0.1), (10**4000, 0.5), (float("inf"), 2), (6, 10**4000)], ids=range(4)
)
def test_multiples_of_any_size_are_compared(value, divisor):
    assert isinstance(first_violation({"multipleOf": divisor}, value), str | None)
