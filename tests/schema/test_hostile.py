"""Schemas and values that multiply work: each ends within the same number of lines as an ordinary large one."""

import contextlib
import json

import pytest

from fcshim.schema.coerce import coerce
from fcshim.schema.expect import compile_schema
from fcshim.schema.limits import StepLimitError
from fcshim.schema.validate import find_violations, first_violation
from tests.steps import steps

pytestmark = pytest.mark.security

MAX_LINES = 750_000
"""Some 50 ms."""


def lists(items):
    return {"type": "object", "properties": {"v": {"type": "array"} | items}}


def chain(keyword, end=True, length=50):
    """Return a schema that doubles its references at each of its definitions."""
    links = {str(i): {keyword: [{"$ref": f"#/$defs/{i + 1}"}] * 2} for i in range(length)}
    return {"$defs": links | {str(length): end}, "$ref": "#/$defs/0"}


def nested(levels, value):
    for _ in range(levels):
        value = {"a": value}
    return value


OBJECTS = [{"type": "object", "properties": {f"k{i}": {"type": "string"}}, "required": [f"k{i}"]} for i in range(200)]
KINDS = [
    {"type": "object", "properties": {"kind": {"const": f"k{i}"}, "z": {"type": "integer"}}, "required": ["kind", "z"]}
    for i in range(500)
]
TREE = {
    "$defs": {
        "n": {"anyOf": [{"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, f"b{i}": {}}} for i in range(16)]}
    },
    "$ref": "#/$defs/n",
}
ATTACKS = {
    "a union of constants": (lists({"items": {"oneOf": [{"const": f"c{i}"} for i in range(500)]}}), ["x"] * 20_000),
    "a union of many-typed constants": (
        lists({"items": {"oneOf": [{"const": i if i % 2 else str(i)} for i in range(500)]}}),
        [f"x{i}" for i in range(9_000)],
    ),
    "unique objects": (lists({"uniqueItems": True}), [{"a": i} for i in range(20_000)]),
    "unique lists of lists": (lists({"uniqueItems": True}), [[[[i]]] * 9 for i in range(3_000)]),
    "unique lists at each level": (
        {"$ref": "#/$defs/l", "$defs": {"l": {"uniqueItems": True, "items": {"$ref": "#/$defs/l"}}}},
        [[[[[i, j, k] for i in range(20)] for j in range(20)] for k in range(20)]],
    ),
    "a union of objects": (lists({"items": {"anyOf": OBJECTS}}), [{"q": i} for i in range(5_000)]),
    "a union of objects in objects": (
        lists({"items": {"anyOf": [{"properties": {"o": {"anyOf": OBJECTS}}, "required": ["o"]}] * 50}}),
        [{"o": {"q": 1}}] * 500,
    ),
    "a union of equal objects": (lists({"items": {"oneOf": [OBJECTS[0]] * 200}}), [{"k0": "x"}] * 5_000),
    "a large discriminated union": (lists({"items": {"oneOf": KINDS}}), [{"kind": "x", "z": "1"}] * 5_000),
    "a union of numbers for strings": (
        lists({"items": {"anyOf": [{"type": "integer", "minimum": i} for i in range(250)]}}),
        ["x"] * 20_000,
    ),
    "a union at every level": (TREE, nested(40, "x")),
    "doubled allOf": (chain("allOf"), 5),
    "doubled anyOf": (chain("anyOf", {"type": "string"}), 5),
    "doubled oneOf": (chain("oneOf", {"type": "string"}), 5),
    "doubled conditions": (
        {"$defs": {str(i): {key: {"$ref": f"#/$defs/{i + 1}"} for key in ("if", "then")} for i in range(60)}}
        | {"$ref": "#/$defs/0"},
        5,
    ),
    "doubled negation": (
        {"$defs": {str(i): {"allOf": [{"not": {"$ref": f"#/$defs/{i + 1}"}}] * 2} for i in range(60)}}
        | {"$ref": "#/$defs/0"},
        5,
    ),
    "unevaluated members of unions": (
        {"unevaluatedProperties": False, "allOf": [{"anyOf": OBJECTS}] * 50},
        {f"k{i}": "x" for i in range(200)},
    ),
    "a chain of references": (
        {"$defs": {str(i): {"$ref": f"#/$defs/{i + 1}"} for i in range(9_000)}, "$ref": "#/$defs/0"},
        5,
    ),
    "a long reference": ({"$ref": "#" + "/a" * 200_000}, 5),
    "a large enumeration": (lists({"items": {"enum": [f"E{i}" for i in range(30_000)]}}), ["e7"] * 5_000),
    "enumerations of objects": (lists({"items": {"enum": [{"a": i} for i in range(9_000)]}}), [{"a": -1}] * 5_000),
    "many keywords": ({f"k{i}": 1 for i in range(60_000)} | {"items": {}}, [1] * 1_000),
    "many required names": (lists({"items": {"required": [f"k{i}" for i in range(3_000)]}}), [{}] * 3_000),
    "many dependencies": (lists({"items": {"dependentRequired": {f"k{i}": [] for i in range(3_000)}}}), [{}] * 3_000),
    "names against a union": (
        {"propertyNames": {"anyOf": [{"minLength": 900}] * 500}},
        {f"k{i}": 1 for i in range(5_000)},
    ),
    "contains at each level": (
        {"$ref": "#/$defs/l", "$defs": {"l": {"contains": {"$ref": "#/$defs/l"}, "items": {"$ref": "#/$defs/l"}}}},
        [[[[[[]] * 9] * 9] * 9] * 9] * 2,
    ),
    "patterns that backtrack": (
        {"patternProperties": {"(a+)+$": {}}, "additionalProperties": False, "unevaluatedProperties": False},
        {"a" * 60 + "!": 1},
    ),
    "a large value in every message": (lists({"items": {"not": {}}}), [{"text": "x" * 900}] * 500),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("search", [first_violation, find_violations])
def test_validation_takes_bounded_work(search, schema, value):
    value = {"v": value} if "properties" in schema and "v" in schema["properties"] else value

    def validate():
        with contextlib.suppress(StepLimitError):
            search(schema, value)

    assert steps(validate, "line") < MAX_LINES


@pytest.mark.parametrize(("schema", "value"), ATTACKS.values(), ids=ATTACKS)
def test_coercion_takes_bounded_work(schema, value):
    value = {"v": value} if "properties" in schema and "v" in schema["properties"] else value
    text = json.dumps(value)

    assert steps(lambda: coerce(compile_schema(schema), value, text), "line") < MAX_LINES


ROWS = [{"id": i, "name": f"row {i}", "tags": ["a", "b"]} for i in range(400)]
ROW = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "name": {"type": "string", "minLength": 1},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
    },
    "required": ["id", "name"],
    "additionalProperties": False,
}
ORDINARY = {
    "rows of a table": (lists({"items": ROW}), {"v": ROWS}),
    "a thousand kinds of events": (
        lists({"items": {"oneOf": [*KINDS, *({"$ref": f"#/properties/v/items/oneOf/{i}"} for i in range(2))]}}),
        {"v": [{"kind": f"k{i}", "z": i} for i in range(2, 500)]},
    ),
    "the countries of the world": (
        lists({"items": {"anyOf": [{"const": f"C{i}"} for i in range(250)]}, "uniqueItems": True}),
        {"v": [f"C{i}" for i in range(250)]},
    ),
    "a tree": (
        {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}}}},
        nested(60, {}),
    ),
    "a file of a megabyte": (
        {"properties": {"content": {"type": "string", "maxLength": 2_000_000}}, "required": ["content"]},
        {"content": "line\n" * 200_000},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), ORDINARY.values(), ids=ORDINARY)
def test_ordinary_large_values_are_checked_to_their_end(schema, value):
    assert first_violation(schema, value) is None


def test_the_last_of_many_rows_is_checked():
    rows = [*ROWS, {"id": "400", "name": "", "tags": []}]

    assert [each.path for each in find_violations(lists({"items": ROW}), {"v": rows})] == ["v[400].id", "v[400].name"]


def test_the_value_of_a_discriminator_chooses_the_branch_of_a_coercion():
    text = json.dumps([{"kind": "k199", "z": "5"}] * 300)
    found = coerce(compile_schema({"type": "array", "items": {"oneOf": KINDS[:200]}}), json.loads(text), text)

    assert found is not None
    assert text.replace('"5"', "5") == found.text
