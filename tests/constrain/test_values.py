"""The schema admits the values that its grammar derives."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fcshim.constrain.grammar import ROOT, Grammar
from fcshim.constrain.rules import Rules
from fcshim.constrain.token_limit import limit_tokens
from fcshim.constrain.values import arguments
from fcshim.constrain.writer import write_gbnf
from tests.constrain import schemas
from tests.constrain.sampler import sample
from tests.examples import examples

JSON = Any


def grammar_of(schema: JSON) -> Grammar:
    rules = Rules()
    root = arguments(schema, rules)
    return Grammar({**rules.rules, ROOT: root}, tuple(rules.notes))


def derived(schema: JSON, count: int = 60) -> list[JSON]:
    grammar = grammar_of(schema)
    return [json.loads(sample(grammar, seed)) for seed in range(count)]


def member(schema: JSON, count: int = 60) -> list[JSON]:
    """Return sampled values of one member."""
    return [each["x"] for each in derived({"type": "object", "properties": {"x": schema}, "required": ["x"]}, count)]


@given(schema=schemas.arguments, seed=st.integers(0, 2**32))
def test_sampled_values_satisfy_the_schema(schema: JSON, seed: int) -> None:
    grammar = grammar_of(schema)
    text = sample(grammar, seed)

    assert [] == list(Draft202012Validator(schema).iter_errors(json.loads(text))), text


@examples(16)
@given(schema=schemas.arguments, seed=st.integers(0, 2**32), tokens=st.integers(1, 3_000))
def test_narrower_limits_still_satisfy_the_schema(schema: JSON, seed: int, tokens: int) -> None:
    text = sample(limit_tokens(grammar_of(schema), tokens), seed)

    assert [] == list(Draft202012Validator(schema).iter_errors(json.loads(text))), text


def test_arguments_listed_by_enum_are_written_as_they_are() -> None:
    listed = [{"a": 1, "b": [True]}, {"a": "x"}, {}]

    assert all(value in listed for value in derived({"type": "object", "enum": [*listed, "no object"]}))
    assert all(value in derived({"enum": listed}) for value in listed)
    assert [{"a": None}] * 3 == derived({"type": "object", "const": {"a": None}}, 3)


def test_recursive_references_end() -> None:
    found = derived(schemas.TREE, 200)

    for value in found:
        Draft202012Validator(schemas.TREE).validate(value)
    assert any(value["root"]["left"] for value in found)
    assert any(value["root"].get("more") for value in found)


def test_members_are_in_schema_order_and_optional_ones_may_be_absent() -> None:
    schema = {"type": "object", "properties": {key: {"type": "null"} for key in "bac"}, "required": ["a"]}

    assert {"a", "ba", "ac", "bac"} == {"".join(value) for value in derived(schema)}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer", "minimum": 8, "maximum": 12}, {8, 9, 10, 11, 12}),
        ({"type": "integer", "exclusiveMinimum": -3, "exclusiveMaximum": 1}, {-2, -1, 0}),
        ({"type": "integer", "multipleOf": 5, "minimum": -5, "maximum": 10}, {-5, 0, 5, 10}),
        ({"multipleOf": 4, "allOf": [{"type": "integer", "multipleOf": 6}], "minimum": 1, "maximum": 30}, {12, 24}),
        ({"enum": ["a", 1, None, [2]]}, ["a", 1, None, [2]]),
        ({"type": "string", "enum": ["a", 1]}, {"a"}),
        ({"const": {"a": 1}}, [{"a": 1}]),
        ({"enum": [1, 2, 3, 4, 2.5, "abc", True], "exclusiveMinimum": 1, "maximum": 3}, [2, 3, 2.5, "abc", True]),
        ({"enum": [5, 6, 10], "allOf": [{"multipleOf": 5, "minimum": 6}]}, {10}),
        ({"enum": ["a", "bc", "def", 7], "allOf": [{"minLength": 2}, {"maxLength": 2}]}, ["bc", 7]),
        ({"anyOf": [{"const": 1}, {"const": 2}]}, {1, 2}),
        ({"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}]}, {2, 3}),
        ({"type": ["boolean", "null"]}, {True, False, None}),
        ({"type": "boolean", "nullable": True}, {True, False}),
        ({"type": "array", "items": {"const": 1}, "maxItems": 2}, [[], [1], [1, 1]]),
        ({"type": "array", "prefixItems": [{"const": 1}], "items": False}, [[], [1]]),
        ({"type": "object", "properties": {}, "additionalProperties": False}, [{}]),
    ],
)
def test_every_admitted_value_is_sampled(schema: JSON, expected: Any) -> None:
    found = member(schema, 200)

    assert all(value in expected for value in found)
    assert all(value in found for value in expected)


@pytest.mark.parametrize("form", ["date", "date-time", "uuid", "ipv4", "time"])
def test_formats_are_kept(form: str) -> None:
    checker = Draft202012Validator.FORMAT_CHECKER

    assert all(checker.conforms(value, form) for value in member({"type": "string", "format": form}, 300))


def test_a_string_has_as_many_characters_as_its_schema_says() -> None:
    texts = member({"type": "string", "minLength": 70, "maxLength": 200})

    assert all(70 <= len(text) <= 200 for text in texts)


@pytest.mark.parametrize(
    ("schema", "note"),
    [
        ({"type": "string", "pattern": "^(a+)+$"}, "pattern"),
        ({"type": "string", "minLength": 10**9}, "satisfies"),
        ({"type": "array", "items": {"type": "null"}, "minItems": 10**6}, "minItems"),
        ({"type": "object", "minProperties": 10**6}, "minProperties"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "satisfies"),
        ({"not": {"type": "string"}, "type": "string"}, "not"),
        ({"not": {"type": "string"}}, "not"),
        ({"type": "string", "allOf": [{"if": {"pattern": "a"}, "then": {"minLength": 2}}]}, "if"),
        ({"enum": ["a", "b"], "pattern": "^a"}, "pattern"),
        ({"$ref": "#anchor"}, "'#anchor' is not enforced"),
        (
            {"anyOf": [{"type": "integer"}, {"$ref": "https://example.com/x.json"}]},
            "example.com/x.json' is not enforced",
        ),
        ({"$dynamicRef": "#node"}, "dynamicRef"),
        ({"anyOf": [{"enum": [number]} for number in range(300)]}, "unions or references are too large"),
        ({"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 1}, "satisfies"),
        ({"type": "string", "format": "iri"}, "format"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "number", "multipleOf": 0.37}, "multipleOf"),
        ({"$ref": "https://example.com/schema.json"}, "'https://example.com/schema.json' is not enforced"),
        ({"type": "integer", "allOf": [{"$ref": "#/$defs/lost"}]}, "'#/$defs/lost' is not enforced"),
        ({"$ref": "#/properties/x"}, "too large"),
        ({"allOf": [{"anyOf": [{"enum": [at]} for at in range(300)]}] * 2}, "too large"),
    ],
)
def test_what_cannot_be_expressed_is_relaxed_and_noted(schema: JSON, note: str) -> None:
    grammar = grammar_of({"type": "object", "properties": {"x": schema}, "required": ["x"]})

    assert any(note in each for each in grammar.notes)
    assert isinstance(json.loads(sample(grammar, 1)), dict)


@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": "string", "minLength": 3}, {"enum": ["a", 1]}])
def test_a_root_that_admits_no_object_admits_any_arguments_and_is_noted(schema: JSON) -> None:
    grammar = grammar_of(schema)

    assert any("satisfies" in note for note in grammar.notes)
    assert isinstance(json.loads(sample(grammar, 1)), dict)


def test_an_alternative_without_objects_is_omitted() -> None:
    found = derived({"anyOf": [{"type": "array"}, {"properties": {"x": {"const": 1}}, "required": ["x"]}]})

    assert all({"x": 1} == each for each in found)


@pytest.mark.parametrize("keyword", ["minLength", "maxLength"])
def test_a_negative_count_is_ignored(keyword: str) -> None:
    assert any(len(each) > 2 for each in member({"type": "string", keyword: -1}))


def test_only_the_first_notes_are_kept() -> None:
    lost = {f"p{at}": {"$ref": f"#/{at}"} for at in range(5_000)}
    notes = grammar_of({"type": "object", "anyOf": [{"properties": lost}, {"properties": {}}]}).notes

    assert 20 < len(notes) < 40
    assert "more is not enforced" == notes[-1]


def doubling() -> JSON:
    """References that double at each level."""
    steps = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(60)}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {**steps, "d60": {"type": "null"}}}


def multiplying() -> JSON:
    unions = [{"anyOf": [{"properties": {f"p{n}_{m}": {}}} for m in range(8)]} for n in range(12)]
    return {"type": "object", "allOf": unions}


def branching() -> JSON:
    """Sixty definitions, each of which refers to all others."""
    keys = [f"d{at}" for at in range(60)]
    inner = {"type": "object", "properties": {key: {"$ref": f"#/$defs/{key}"} for key in keys}}
    return {**inner, "$defs": dict.fromkeys(keys, inner)}


def chained() -> JSON:
    """References through five thousand objects."""
    steps = {f"d{at}": {"properties": {"x": {"$ref": f"#/$defs/d{at + 1}"}}} for at in range(5_000)}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": steps}


HOSTILE = {
    "doubling": doubling(),
    "multiplying": multiplying(),
    "branching": branching(),
    "chained": chained(),
    "wide": {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5_000)}},
    "all optional": {"type": "object", "properties": {f"p{n}": {"type": "null"} for n in range(500)}},
    "listed one by one": {
        "type": "object",
        "properties": {"x": {"type": "array", "prefixItems": [{"type": "null"}] * 900, "minItems": 450}},
    },
    "one inside another": {"type": "object", "properties": {"x": {"enum": ["a" * n for n in range(2_000)]}}},
    "many values": {"type": "object", "properties": {"x": {"enum": list(range(50_000))}}},
    "values twice": {
        "type": "object",
        "properties": {"x": {"enum": [*range(40_000)], "minimum": 1, "allOf": [{"enum": [*range(39_999, 79_999)]}]}},
    },
    "itself": {"$ref": "#"},
    "needs itself": {"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]},
    "remote": {"type": "object", "properties": {"x": {"$ref": "https://example.com/schema.json"}}},
    "nonsense": {"type": 5, "properties": [], "required": {"a": 1}, "enum": {}, "minItems": "x", "items": 3},
    "half a character": {"type": "object", "properties": {"\ud800": {}, "x": {"enum": ["\udc00", "y"]}}},
    "no object": {"type": "array", "items": {"type": "string"}},
    "many members": {"type": "object", "minProperties": 10**6, "additionalProperties": {"$ref": "#"}},
    "negative counts": {"type": "object", "properties": {"x": {"type": "string", "minLength": -1, "maxLength": -1}}},
    "repetitions inside one another": {
        "type": "object",
        "properties": {"x": {"type": "array", "items": {"type": "string", "pattern": "^[^/]+(/[^/]+)*$"}}},
        "additionalProperties": {"type": "string", "pattern": "^(([a-z]{1,60}-){1,60}_){1,5}$"},
    },
    "huge bounds": {"type": "object", "properties": {"x": {"type": "integer", "minimum": 10**300, "maximum": 1e308}}},
}


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_hostile_schemas_take_bounded_work_and_still_give_an_object(schema: JSON) -> None:
    grammar = grammar_of(schema)

    assert isinstance(json.loads(sample(grammar, 1)), dict)
    assert write_gbnf(limit_tokens(grammar, 100)).startswith("root ::= ")
