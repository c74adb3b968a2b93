"""Validation of values against schemas."""

import pytest

from fcshim.schema.validate import first_violation

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def test_a_valid_value_has_no_violation() -> None:
    assert first_violation(CITY, {"city": "Oslo"}) is None


def test_a_violation_is_reported_with_its_path() -> None:
    assert first_violation(CITY, {"city": 5}) == "$.city: 5 is not of type 'string'"


def test_a_missing_member_is_named() -> None:
    assert first_violation(CITY, {}) == "$: 'city' is a required property"


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        "text",
        {"type": "no such type"},
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "#/$defs/missing"},
        {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"not": {"$ref": "#"}},
        {"$dynamicRef": "#"},
    ],
)
def test_an_unusable_schema_admits_everything(schema: object) -> None:
    assert first_violation(schema, {"city": 5}) is None


def test_a_catastrophic_pattern_costs_nothing() -> None:
    schema = {"type": "string", "pattern": "^(a+)+$"}

    assert first_violation(schema, "a" * 60 + "b") is None


def test_values_are_validated_to_the_maximum_depth_of_arguments() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    value: object = {"a": 5}
    for _ in range(60):
        value = {"a": value}

    fault = first_violation(schema, value)
    assert fault is not None
    assert "5 is not of type 'object'" in fault
