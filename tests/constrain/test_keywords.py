"""Every keyword of JSON Schema 2020-12: valid instances are admitted, invalid ones refused, and the rest is noted.

An instance counts as admitted in any order of its keys, with any white space and spelling of numbers that is written.
"""

import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator

from fcshim.constrain.grammar import ROOT, Grammar
from fcshim.constrain.rules import Rules
from fcshim.constrain.values import document
from tests.constrain.matcher import admits

JSON = Any
REPEAT = "keys that the schema does not name may repeat"
DEPTH = "values that the schema leaves free are nested at most 6 levels deep"
CLOSED = "members that the schema does not name are not admitted beside those that it names"
ONE_OF = "oneOf is enforced as anyOf"
ANY = (DEPTH, REPEAT)


class Case(NamedTuple):
    """A schema, instances on which the grammar must agree with a validator, and others on which it may differ.

    `notes`, besides those about keys and depth of free values, say why it may.
    """

    schema: JSON
    instances: tuple[JSON, ...]
    differing: tuple[JSON, ...] = ()
    notes: tuple[str, ...] = ()


STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
AB = {"a": INTEGER, "b": STRING}
TAGGED = [{"properties": {"kind": {"const": name}, name: INTEGER}, "required": ["kind", name]} for name in ("x", "y")]

CASES = {
    "true": Case(True, (1, "a", None, [], {"a": [1]})),
    "type": Case({"type": "integer"}, (1, -3, "1", 1.5, True, None, [], {})),
    "type, a whole float": Case({"type": "integer"}, (2,)),
    "type, several": Case({"type": ["string", "null"]}, ("a", None, 1, False)),
    "enum": Case({"enum": [1, "a", [1], {"b": None}]}, (1, "a", [1], {"b": None}, 2, "b", [], {"b": 1})),
    "const": Case({"const": False}, (False, 0, None, "false")),
    "minimum": Case({"type": "number", "minimum": 1.5}, (1.5, 1.4, 2, -2, 100)),
    "maximum": Case({"type": "number", "maximum": -1}, (-1, 0, -1.5, -0.99)),
    "exclusiveMinimum": Case({"type": "number", "exclusiveMinimum": 0}, (0, 0.5, 0.01, -0.5, 7)),
    "exclusiveMaximum": Case({"type": "number", "exclusiveMaximum": 100}, (100, 99.5, 99, 100.5)),
    "multipleOf": Case({"type": "integer", "multipleOf": 7, "minimum": -7, "maximum": 99}, (0, 7, 14, 15, -7, 105)),
    "multipleOf, unbounded": Case({"type": "integer", "multipleOf": 7}, (7,), (8,), ("multipleOf is not enforced",)),
    "minLength": Case({"type": "string", "minLength": 2}, ("", "a", "ab", "नम", "😀😀", "éa")),
    "maxLength": Case({"type": "string", "maxLength": 2}, ("", "ab", "abc", "éa", "日本", "日本語")),
    "pattern": Case({"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$"}, ("a-b", "a-", "", "abc")),
    "pattern, ambiguous": Case({"type": "string", "pattern": "^(a+)+$"}, ("a",), ("b",), ("pattern is not enforced",)),
    "format": Case({"type": "string", "format": "date"}, ("2026-11-22",), ("soon",)),
    "items": Case({"type": "array", "items": INTEGER}, ([], [1, 2], ["a"], [1, "a"], {})),
    "prefixItems": Case({"type": "array", "prefixItems": [INTEGER, STRING]}, ([], [1], [1, "a"], ["a"], [1, 2])),
    "prefixItems and more": Case({"type": "array", "prefixItems": [INTEGER]}, ([1, "a", None], ["a"])),
    "prefixItems, no more": Case({"type": "array", "prefixItems": [INTEGER], "items": False}, ([], [1], [1, 2])),
    "minItems": Case({"type": "array", "items": INTEGER, "minItems": 2}, ([1], [1, 2], [1, 2, 3])),
    "maxItems": Case({"type": "array", "items": INTEGER, "maxItems": 1}, ([], [1], [1, 2])),
    "uniqueItems": Case(
        {"type": "array", "items": INTEGER, "uniqueItems": True}, ([1, 2],), ([1, 1],), ("uniqueItems is not enforced",)
    ),
    "uniqueItems, listed": Case(
        {"type": "array", "items": {"enum": ["a", "b", 1]}, "uniqueItems": True, "minItems": 1, "maxItems": 2},
        ([], ["a"], ["b", "a"], [1, "b"], ["a", "a"], ["a", "b", 1], ["c"]),
    ),
    "uniqueItems, positions": Case(
        {"type": "array", "prefixItems": [{"type": "boolean"}] * 2, "items": False, "uniqueItems": True},
        ([], [True], [True, False], [False, True], [True, True], [False, True, False]),
    ),
    "uniqueItems, many": Case(
        {"type": "array", "items": {"enum": list(range(6))}, "uniqueItems": True},
        ([1, 2],),
        ([1, 1],),
        ("uniqueItems is not enforced",),
    ),
    "contains": Case({"type": "array", "items": INTEGER, "contains": {"const": 1}}, ([1], [2], [2, 1], [])),
    "maxContains": Case(
        {"type": "array", "items": INTEGER, "contains": {"const": 1}, "maxContains": 1}, ([1], [2, 1], [1, 2, 1], [2])
    ),
    "properties": Case(
        {"type": "object", "properties": AB}, ({}, {"a": 1}, {"b": "x", "a": 1}, {"a": "x"}), ({"c": 1},)
    ),
    "required": Case({"type": "object", "properties": AB, "required": ["b"]}, ({}, {"a": 1}, {"b": "x"})),
    "required, not described": Case({"type": "object", "required": ["a"]}, ({}, {"a": 1}, {"b": 1, "a": 1}, {"b": 1})),
    "additionalProperties": Case(
        {"type": "object", "properties": AB, "additionalProperties": {"type": "boolean"}},
        ({}, {"a": 1}, {"c": True}, {"a": 1, "c": True, "b": "x"}, {"c": 1}, {"a": True}, {"ab": False}, {"": True}),
        ({"": True},),
    ),
    "additionalProperties, any": Case(
        {"type": "object", "properties": AB, "required": ["a"], "additionalProperties": True},
        ({"a": 1}, {"a": 1, "c": [None]}, {"c": 1}, {"a": 1, "b": 5}, {"a": 1, "é": "x"}),
    ),
    "additionalProperties, none": Case(
        {"type": "object", "properties": AB, "additionalProperties": False}, ({}, {"a": 1}, {"c": 1})
    ),
    "additionalProperties, counted": Case(
        {"type": "object", "properties": AB, "additionalProperties": True, "maxProperties": 2},
        ({}, {"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 1}),
        ({"c": 1},),
        (CLOSED,),
    ),
    "additionalProperties, alone": Case(
        {"type": "object", "additionalProperties": INTEGER}, ({}, {"a": 1}, {"a": "x"})
    ),
    "a forbidden property": Case(
        {"type": "object", "properties": {"a": False}, "additionalProperties": INTEGER}, ({}, {"b": 1}), ({"a": 1},)
    ),
    "minProperties": Case({"type": "object", "additionalProperties": INTEGER, "minProperties": 1}, ({}, {"a": 1})),
    "maxProperties": Case(
        {"type": "object", "additionalProperties": INTEGER, "maxProperties": 1}, ({"a": 1}, {"a": 1, "b": 2})
    ),
    "patternProperties": Case(
        {"type": "object", "patternProperties": {"^a": INTEGER}, "additionalProperties": False},
        ({}, {"a1": 1}, {"a1": "x"}, {"b": 1}),
    ),
    "patternProperties, several": Case(
        {"type": "object", "patternProperties": {"^a": INTEGER, "b$": STRING}, "additionalProperties": False},
        ({"a1": 1}, {"b": "x"}),
        ({"c": 1},),
        ("patternProperties is not enforced",),
    ),
    "patternProperties beside properties": Case(
        {"type": "object", "properties": AB, "patternProperties": {"^x": INTEGER}},
        ({"a": 1}, {"a": "x"}),
        ({"x1": 1},),
        ("patternProperties is not enforced",),
    ),
    "propertyNames": Case({"propertyNames": {"enum": ["a", "b"]}}, (1, {}, {"a": 1}, {"b": 1, "a": 2}, {"c": 1})),
    "propertyNames, a pattern": Case(
        {"type": "object", "propertyNames": {"pattern": "^a"}}, ({}, {"a": 1}, {"ab": 1}, {"b": 1})
    ),
    "propertyNames, a length": Case({"type": "object", "propertyNames": {"maxLength": 2}}, ({"ab": 1}, {"abc": 1})),
    "propertyNames, none": Case({"type": "object", "propertyNames": False}, ({}, {"a": 1})),
    "propertyNames beside properties": Case(
        {"type": "object", "properties": AB, "propertyNames": {"pattern": "^a"}},
        ({"a": 1}, {"a": "x"}),
        ({"b": "x"},),
        ("propertyNames is not enforced",),
    ),
    "propertyNames, a reference": Case(
        {"type": "object", "propertyNames": {"$ref": "#/$defs/a"}, "$defs": {"a": {"minLength": 2}}},
        ({"ab": 1},),
        ({"b": 1},),
        ("propertyNames is not enforced",),
    ),
    "dependentRequired": Case(
        {"type": "object", "properties": AB, "dependentRequired": {"a": ["b"]}},
        ({"a": 1, "b": "x"}, {"b": "x"}, {"a": 1}, {}),
    ),
    "not": Case({"type": "integer", "not": {"const": 1}}, (2, 0, 1, "a")),
    "not, strings": Case({"type": "string", "not": {"enum": ["a", "bc"]}}, ("", "a", "b", "bc", "bcd", "ab", "é", 1)),
    "not, integers": Case({"type": "number", "not": INTEGER}, (1.5,), (1,), ("not is not enforced",)),
    "if": Case({"type": "integer", "if": {"minimum": 5}, "then": {"maximum": 7}}, (1, 6, 8)),
    "if, a value": Case({"type": "string", "if": {"const": "a"}, "then": {"minLength": 2}}, ("a", "b", "ab")),
    "unevaluatedProperties": Case(
        {"type": "object", "additionalProperties": INTEGER, "unevaluatedProperties": False},
        ({"a": 1}, {"b": "x"}),
    ),
    "unevaluatedProperties, none": Case(
        {"type": "object", "allOf": [{"properties": AB}], "unevaluatedProperties": False}, ({"a": 1}, {"c": 1})
    ),
    "unevaluatedItems": Case(
        {"type": "array", "prefixItems": [INTEGER], "unevaluatedItems": STRING}, ([1, "a"], [1, 1])
    ),
    "allOf": Case({"allOf": [{"type": "integer"}, {"minimum": 3}]}, (2, 3, "a")),
    "anyOf": Case({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, (1, "a", "ab", None)),
    "oneOf, other types": Case({"oneOf": [INTEGER, STRING]}, (1, "a", None)),
    "oneOf, other values": Case({"oneOf": [{"enum": [1, 2]}, {"enum": [3, "a"]}]}, (1, 3, "a", 4)),
    "oneOf, a discriminator": Case(
        {"type": "object", "oneOf": TAGGED},
        ({"kind": "x", "x": 1}, {"kind": "y", "y": 1}, {"kind": "x", "y": 1}, {"kind": "z"}),
    ),
    "oneOf, overlapping": Case({"oneOf": [INTEGER, {"type": "number", "minimum": 2}]}, (1, 2.5), (3,), (ONE_OF,)),
    "oneOf, lengths": Case({"type": "string", "oneOf": [{"minLength": 2}, {"maxLength": 4}]}, ("a", "abc", "abcde")),
    "oneOf, members": Case(
        {"type": "object", "properties": AB, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        ({}, {"a": 1}, {"b": "x"}, {"a": 1, "b": "x"}),
    ),
    "$ref": Case({"$ref": "#/$defs/a", "$defs": {"a": INTEGER}}, (1, "a")),
    "$ref, recursive": Case(
        {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False},
        ({}, {"next": {"next": {}}}, {"next": 1}),
    ),
    "$ref, remote": Case(
        {"$ref": "http://localhost/a"}, (), (1,), ("the reference 'http://localhost/a' is not enforced",)
    ),
    "$ref, by $id": Case({"$ref": "b", "$defs": {"a": {"$id": "b", **INTEGER}}}, (1, "a")),
    "$ref, by $anchor": Case({"$ref": "#b", "$defs": {"a": {"$anchor": "b", **INTEGER}}}, (1, "a")),
    "$dynamicRef": Case({"$dynamicRef": "#b", "$defs": {"a": {"$dynamicAnchor": "b", **INTEGER}}}, (1, "a")),
    "$id, another base": Case({"items": {"$id": "other/", "items": INTEGER}, "type": "array"}, ([[1]], [["a"]])),
    "nested free values": Case({"type": "object", "properties": {"a": {}}}, ({"a": [[{"b": [1]}]]},), (), (DEPTH,)),
}


def spellings(value: JSON) -> Iterator[JSON]:
    """Yield the value with the members of its objects in every order."""
    if isinstance(value, dict):
        for keys in itertools.permutations(value):
            for members in itertools.product(*(list(spellings(value[key])) for key in keys)):
                yield dict(zip(keys, members, strict=True))
    elif isinstance(value, list):
        yield from map(list, itertools.product(*(list(spellings(item)) for item in value)))
    else:
        yield value


def grammar_of(schema: JSON) -> Grammar:
    rules = Rules()
    root = document(schema, rules)
    return Grammar({**rules.rules, ROOT: root}, tuple(rules.notes))


def is_admitted(grammar: Grammar, value: JSON) -> bool:
    return any(admits(grammar, json.dumps(each, ensure_ascii=False)) for each in spellings(value))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_grammar_and_a_validator_agree_or_a_note_says_why_not(case: Case) -> None:
    grammar, validator = grammar_of(case.schema), Draft202012Validator(case.schema)

    for value in case.instances:
        if value not in case.differing:
            assert validator.is_valid(value) == is_admitted(grammar, value), value
    assert {*case.notes} <= {*grammar.notes} <= {*case.notes, *ANY}


@pytest.mark.parametrize("name", ["a", "ab", "abc", "b", 'q"', "é"])
def test_a_member_that_the_schema_names_never_comes_as_another_one(name: str) -> None:
    """However it is spelled: a parser could take either value."""
    names = ["a", "abc", "b", 'q"', "é"]
    schema = {"type": "object", "properties": dict.fromkeys(names, NULL), "additionalProperties": INTEGER}
    grammar = grammar_of(schema)
    escaped = "".join(f"\\u{ord(char):04x}" for char in name)
    written = [json.dumps(name), json.dumps(name, ensure_ascii=False), f'"{escaped}"']
    found = [admits(grammar, f"{{{key}: 1}}") for key in written]

    assert found == ([True, True, False] if name == "ab" else [False] * 3)
