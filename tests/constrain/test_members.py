"""Members with unnamed, listed or pattern-matched names, as schema generators declare them."""

from typing import Any

import pytest

from fcshim.constrain.rules import Rules
from fcshim.constrain.value_syntax import GemmaSyntax, PythonSyntax
from fcshim.constrain.values import arguments
from tests.constrain.test_values import grammar_of, member

JSON = Any
INTEGER = {"type": "integer", "minimum": 1, "maximum": 9}
DIGITS = set(range(1, 10))
TWICE = ("keys that the schema does not name may repeat",)


def notes(schema: JSON) -> tuple[str, ...]:
    return grammar_of({"type": "object", "properties": {"x": schema}, "required": ["x"]}).notes


@pytest.mark.parametrize(
    "said",
    [
        {"additionalProperties": INTEGER},
        {"additionalProperties": INTEGER, "propertyNames": {"type": "string"}},
        {"additionalProperties": INTEGER, "propertyNames": True},
        {"patternProperties": {"^(.*)$": INTEGER}},
        {"patternProperties": {".*": INTEGER}, "additionalProperties": False},
        {"patternProperties": {"^.*$": {"type": "integer"}, "": {"minimum": 1, "maximum": 9}}},
    ],
)
def test_every_way_to_declare_a_dictionary_constrains_its_values(said: JSON) -> None:
    schema = {"type": "object", **said}
    found = [value for each in member(schema) for value in each.values()]

    assert DIGITS >= set(found) != set()
    assert TWICE == notes(schema)


@pytest.mark.parametrize("more", [{}, {"additionalProperties": False}, {"additionalProperties": {"const": 1}}])
def test_pattern_properties_constrain_values_but_not_names(more: JSON) -> None:
    schema = {"type": "object", "patternProperties": {"^a": INTEGER, "^b": {"const": 0}}, **more}
    found = {value for each in member(schema, 200) for value in each.values()}

    assert {0, *DIGITS} == found
    assert ("patternProperties is not enforced", *TWICE) == notes(schema)


def test_a_required_name_may_be_declared_by_a_pattern() -> None:
    schema = {"type": "object", "patternProperties": {"^a": INTEGER}, "required": ["a1"], "additionalProperties": False}

    assert {("a1",)} == {tuple(value) for value in member(schema)}
    assert DIGITS >= {value["a1"] for value in member(schema)}


def test_a_pattern_that_matches_all_names_also_applies_to_named_members() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "number", "maximum": 3}},
        "patternProperties": {"^.*$": INTEGER},
        "required": ["a"],
    }

    assert {1, 2, 3} == {value["a"] for value in member(schema)}
    assert () == notes(schema)


@pytest.mark.parametrize("names", [{"enum": ["a", "b"]}, {"type": "string", "enum": ["b", 5, "a"]}])
def test_listed_property_names_are_members(names: JSON) -> None:
    schema = {"type": "object", "propertyNames": names, "additionalProperties": INTEGER, "required": ["a"]}
    found = member(schema)

    assert {frozenset("a"), frozenset("ab")} == {frozenset(value) for value in found}
    assert DIGITS >= {inner for value in found for inner in value.values()}
    assert () == notes(schema)


def test_a_member_outside_the_listed_property_names_is_not_allowed() -> None:
    schema = {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, "propertyNames": {"const": "a"}}

    assert {(), ("a",)} == {tuple(value) for value in member(schema)}


def test_names_match_their_pattern_where_keys_are_strings() -> None:
    schema = {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "additionalProperties": INTEGER}

    assert all(key.isalpha() and key.islower() for value in member(schema) for key in value)
    assert TWICE == notes(schema)
    for syntax in (GemmaSyntax("'"), PythonSyntax()):
        rules = Rules()
        arguments(schema, rules, syntax)
        assert "propertyNames is not enforced" in rules.notes
