"""Schemas as alternatives."""

import pytest

from fcshim.schema.alternatives import Expansion, resolve_reference

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
OBJECT = {"type": "object"}


def alternatives(schema):
    return Expansion(schema).alternatives((schema,))


def test_keywords_alone_are_one_alternative():
    assert [(INTEGER,)] == alternatives(INTEGER)


@pytest.mark.parametrize(
    "schema", [True, {}, {"description": "x"}, {"required": ["a"]}, 5, None, "x", [INTEGER], {"not": STRING}]
)
def test_a_schema_without_constraints_admits_anything(schema):
    assert alternatives(schema) is None


@pytest.mark.parametrize("schema", [False, {"anyOf": [False]}, {"type": "string", "allOf": [False]}])
def test_an_unsatisfiable_schema_has_no_alternatives(schema):
    assert [] == alternatives(schema)


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_a_union_has_an_alternative_for_each_branch(word):
    assert [(INTEGER,), (STRING,)] == alternatives({word: [INTEGER, False, STRING]})


def test_keywords_beside_a_union_apply_to_each_branch():
    schema = {"type": ["integer", "string"], "anyOf": [INTEGER, STRING]}

    assert [(schema, INTEGER), (schema, STRING)] == alternatives(schema)


def test_all_of_joins_and_unions_in_it_multiply():
    schema = {"allOf": [{"anyOf": [INTEGER, STRING]}, {"anyOf": [OBJECT, STRING]}]}

    assert [(INTEGER, OBJECT), (INTEGER, STRING), (STRING, OBJECT), (STRING, STRING)] == alternatives(schema)


@pytest.mark.parametrize("branch", [True, {}, {"title": "x"}, {"pattern": "^a"}, {"required": ["a"]}])
def test_a_union_with_an_unconstrained_branch_admits_anything(branch):
    assert alternatives({"anyOf": [INTEGER, branch]}) is None

    schema = {"type": "integer", "anyOf": [STRING, branch]}
    assert [(schema,)] == alternatives(schema)


def test_references_are_followed():
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": INTEGER}}

    assert [(INTEGER,)] == alternatives(schema)


def doubling(word):
    steps = {str(step): {word: [{"$ref": f"#/$defs/{step + 1}"}] * 2} for step in range(60)}
    return {"$ref": "#/$defs/0", "$defs": steps | {"60": INTEGER}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"type": "object", "allOf": [{"$ref": "#"}]},
        {"anyOf": [{"$ref": "#"}, INTEGER]},
        doubling("allOf"),
        doubling("anyOf"),
        {"anyOf": [{"enum": [number]} for number in range(257)]},
        {"allOf": [{"anyOf": [INTEGER, STRING]}] * 9},
        {"allOf": [INTEGER] * 65},
        {"anyOf": [{"enum": list(range(60_000))}, {"enum": list(range(60_000))}]},
    ],
    ids=[
        "itself",
        "inside allOf",
        "inside anyOf",
        "2^60 parts",
        "2^60 branches",
        "branches",
        "product",
        "parts",
        "enum",
    ],
)
def test_an_endless_or_too_large_schema_admits_anything(schema):
    assert alternatives(schema) is None


def test_a_union_of_values_is_an_enumeration_however_many_there_are():
    branches = [{"const": str(number), "type": "string", "title": "x"} for number in range(1_000)]

    assert [({"enum": [str(number) for number in range(1_000)]},)] == alternatives({"oneOf": branches})


@pytest.mark.parametrize("other", [INTEGER, {"const": 1, "type": "string"}, {"const": 1, "minimum": 2}, True])
def test_a_union_of_values_and_others_keeps_its_branches(other):
    options = alternatives({"oneOf": [{"const": "a"}, other]})

    assert options is None or [({"const": "a"},), (other,)] == options


def test_exceeded_limits_and_unresolved_references_are_recorded():
    large = Expansion({})
    large.alternatives(({"anyOf": [{"enum": [number]} for number in range(257)]},))
    lost = Expansion({"$defs": {"a": INTEGER}})
    lost.alternatives(({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#b"}, {"$ref": "https://example.com"}]},))

    assert (True, False) == (large.exceeded, lost.exceeded)
    assert ["#b", "https://example.com"] == list(lost.unresolved)


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("#/a/b", INTEGER),
        ("#/x~1y/0", STRING),
        ("#/x%2Fy/0", True),
        ("#/x~1y/%30", STRING),
        ("#/p%25/~0", OBJECT),
        ("#/a/c", True),
        ("#/x~1y/1", True),
        ("#/x~1y/-1", True),
        ("#/x~1y/²", True),
        ("#/x~1y/99999999999", True),
        ("#/own/type", True),
        ("#name", True),
        ("", True),
        ("other.json#/a", True),
    ],
)
def test_a_reference_is_a_pointer_into_the_schema(reference, target):
    root = {
        "a": {"b": INTEGER},
        "x/y": [STRING],
        "p%": {"~": OBJECT},
        "own": {"$id": "https://example.com/own", "type": "integer"},
    }

    assert target == resolve_reference(root, reference)


def test_the_whole_schema_is_a_reference_too():
    root = {"$id": "https://example.com/root", "type": "object"}

    assert root is resolve_reference(root, "#")
    assert "object" == resolve_reference(root, "#/type")


def test_work_adds_up_over_the_values_of_a_schema():
    expansion = Expansion(INTEGER)
    expansion.alternatives((INTEGER,))
    once = expansion.work
    expansion.alternatives((INTEGER,))

    assert 0 < once < expansion.work
