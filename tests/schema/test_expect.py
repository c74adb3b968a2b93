"""Expectations of a schema, value by value."""

import functools
import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.schema.coerce import coerce
from fcshim.schema.expect import ANY, Expectation, SchemaExpectations, compile_schema
from fcshim.schema.node import scan
from fcshim.schema.untyped_text import read_untyped_text
from tests.schema.generate import KEYS, roots, texts
from tests.schema.streaming import streamed


@given(schema=roots(), text=texts())
def test_streaming_coerces_as_the_complete_value_is_coerced(schema, text):
    expectation = compile_schema(schema)
    whole = coerce(expectation, json.loads(text), text)
    value, changes = streamed(expectation, text)

    assert json.dumps(value) == json.dumps(json.loads(text if whole is None else whole.text))
    assert changes == ([] if whole is None else list(whole.changes))


@given(schema=roots(), text=texts().filter(lambda text: text[0] not in "{["))
def test_a_scalar_whose_start_streams_is_never_changed(schema, text):
    expectation = compile_schema(schema)

    assert text[0] not in expectation.streaming_starts or coerce(expectation, json.loads(text), text) is None


@given(schema=roots(), number=st.integers(-9, 9))
def test_an_expected_integer_is_never_changed(schema, number):
    expectation = compile_schema(schema)

    assert not expectation.streams_integers or coerce(expectation, number, str(number)) is None


@given(schema=roots(), key=KEYS)
def test_a_null_that_is_removed_does_not_stream(schema, key):
    expectation = compile_schema(schema)

    assert not expectation.drops_null(key) or "n" not in expectation.member(key).streaming_starts


VECTORS = json.loads((Path(__file__).parent / "vectors" / "expect.json").read_text("utf-8"))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_first_character_says_whether_a_value_streams(vector):
    expectation = compile_schema(vector["schema"])

    assert set(vector["streams"]) == {start for start in '{["0tfn' if start in expectation.streaming_starts}
    assert all(
        (digit in expectation.streaming_starts) == ("0" in expectation.streaming_starts) for digit in "-123456789"
    )


@pytest.mark.parametrize(
    "schema", [None, True, {}, 5, "x", [], {"title": "x"}, {"$ref": "#"}, {"anyOf": [{}, {"type": "null"}]}]
)
def test_schemas_without_constraints_share_one_expectation(schema):
    assert ANY is compile_schema(schema)
    assert ANY is ANY.member("a") is ANY.item(5)
    assert not ANY.drops_null("a")


def test_a_kind_that_is_not_admitted_has_no_expectation_inside():
    string = compile_schema({"type": "string", "properties": {"a": {"type": "integer"}}, "items": {"type": "integer"}})

    assert ANY is string.member("a") is string.item(0)


def test_a_shared_member_expectation_applies_before_the_alternative_is_known():
    kinds = [{"properties": {"kind": {"const": kind}, kind: {"type": "integer"}}} for kind in "xy"]
    shared = {"n": {"type": "integer"}, "m": {"type": "integer"}}
    arguments = compile_schema({"type": "object", "properties": shared, "oneOf": kinds, "required": ["m"]})

    assert "{" not in arguments.streaming_starts
    assert coerce(arguments.member("n"), "5", '"5"') is not None
    assert ANY is arguments.member("kind") is arguments.member("x") is arguments.member("other")
    assert [True, False, False, False] == [arguments.drops_null(key) for key in ("n", "m", "kind", "other")]


TREE = {
    "type": "object",
    "properties": {
        "kids": {"type": "array", "items": {"$ref": "#"}},
        "n": {"type": "integer"},
        "m": {"type": "integer"},
    },
    "required": ["m"],
}


def test_a_recursive_schema_is_compiled_once():
    tree = compile_schema(TREE)

    inner = tree.member("kids").item(0)
    assert inner is inner.member("kids").item(7)
    assert tree.member("n") is inner.member("n")


def test_equal_schemas_are_compiled_once():
    again = json.loads(json.dumps(TREE))

    assert compile_schema(TREE) is compile_schema(again)
    assert compile_schema(TREE).member("n") is compile_schema(again).member("n")
    assert compile_schema(TREE) is not compile_schema(TREE | {"required": ["n"]})


def test_a_later_change_of_a_schema_has_no_effect_on_what_was_compiled():
    schema = {"properties": {"a": {"type": "integer"}}}
    before = compile_schema(schema)
    schema["properties"]["a"]["type"] = "string"

    assert before.member("a").admits("integer", 1)
    assert not compile_schema(schema).member("a").admits("integer", 1)


@pytest.mark.parametrize(
    "value",
    [math.nan, {1}, "\ud800", 10**5_000, b"x", ("a",)],
    ids=["nan", "set", "surrogate", "large", "bytes", "tuple"],
)
def test_a_schema_that_is_not_json_is_compiled_too(value):
    schema = {"properties": {"a": {"type": "integer"}, "b": {"const": value}}}

    assert coerce(compile_schema(schema).member("a"), "5", '"5"') is not None
    assert isinstance(compile_schema(schema).member("b"), Expectation)


def test_a_schema_nested_too_deeply_is_compiled_too():
    schema = functools.reduce(lambda inner, _: {"items": inner}, range(100_000), {})

    assert compile_schema(schema | {"type": "array"}).admits("array", [])


def test_threads_that_compile_at_once_get_the_same_expectations():
    schema = {"properties": {f"k{at}": {"type": "integer", "minimum": at} for at in range(300)}, "title": "threads"}
    barrier = threading.Barrier(4)

    def compile_all(_):
        barrier.wait()
        return [compile_schema(schema).member(f"k{at}") for at in range(300)]

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(compile_all, range(4))

    assert all(one is another for other in others for one, another in zip(first, other, strict=True))


def test_the_tools_of_a_reply_share_the_steps_of_compiling():
    """A schema that is expensive takes of the steps of a reply only in the reply that compiles it."""
    schemas = [{"properties": {f"k{at}": {"const": tool} for at in range(100)}} for tool in range(3)]
    reply, other = SchemaExpectations(3_000), SchemaExpectations(3_000)
    for at in range(100):
        reply.get("a", schemas[0]).member(f"k{at}")
        reply.get("b", schemas[1]).member(f"k{at}")

    assert ANY is reply.get("c", schemas[2])
    assert reply.steps.remaining < 0
    assert ANY not in [other.get(name, schema) for name, schema in zip("abc", schemas, strict=True)]


@pytest.mark.parametrize(("key", "dropped"), [("n", True), ("kids", True), ("m", False), ("other", False)])
def test_null_is_removed_for_known_optional_members(key, dropped):
    assert dropped == compile_schema(TREE).drops_null(key)


KEYWORDS = """type enum const properties patternProperties additionalProperties required items prefixItems
additionalItems allOf anyOf oneOf nullable $ref $id $defs a"""
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["#", "#/a", "string"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYWORDS.split()),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(schema=JSON_VALUES, text=texts(), key=st.text(max_size=2))
def test_compiling_never_raises(schema, text, key):
    expectation = compile_schema(schema)
    found = coerce(expectation, json.loads(text), text)

    assert isinstance(expectation.member(key).item(0).member(key), Expectation)
    assert isinstance(expectation.drops_null(key), bool)
    assert found is None or found.text != text
    assert scan(read_untyped_text(expectation, text)) is not None


def deep(levels):
    schema = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "allOf": [{"properties": {"a": schema}}]}
    return schema


def tower(levels):
    text = '"5"'
    for level in range(levels):
        text = f'{{"a": {text}, "k": {level % 2}}}'
    return text


KINDS = [
    {"type": "object", "properties": {"a": {"$ref": "#"}, "k": {"const": k}}, "required": ["a"]} for k in range(100)
]
SAME = [{"type": "object", "properties": {"a": {"$ref": "#"}, f"b{k}": {}}, "required": ["a"]} for k in range(100)]
HOSTILE = {
    "a deep schema": (deep(2_000), tower(60)),
    "many branches": ({"anyOf": [*KINDS, {"type": "integer"}]}, tower(60)),
    "many branches, all alike": ({"anyOf": [*SAME, {"type": "integer"}]}, tower(60)),
    "a large enumeration, many times": (
        {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "properties": {str(k): {"anyOf": [{"$ref": "#/$defs/e"}, {"type": "array"}]} for k in range(2_000)},
            "$defs": {"e": {"enum": [f"word {k}" for k in range(20_000)]}},
        },
        json.dumps({str(k): "WORD 7" for k in range(2_000)}),
    ),
    "arrays that are not there": ({"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "5"),
    "JSON in strings in strings": (
        {"type": "object", "additionalProperties": {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}},
        functools.reduce(lambda text, _: json.dumps({"a": text}), range(12), "5"),
    ),
    "a string that seems to be JSON": ({"type": "array", "items": {"type": "integer"}}, json.dumps("[" * 100_000)),
    "backslashes": ({"type": "integer"}, json.dumps("\\" * 100_000)),
    "digits": ({"type": "integer"}, json.dumps("1" * 100_000)),
    "spaces": ({"type": "object"}, json.dumps("{" + " " * 100_000)),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "text"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_schemas_and_values_take_bounded_work(schema, text):
    """Each of them would take hours without its bound, so it is enough that this ends."""
    expectation = compile_schema(schema)

    coerce(expectation, json.loads(text), text)
    read_untyped_text(expectation, text)


def test_a_discriminator_selects_the_branch_at_any_depth():
    text = tower(30)
    found = coerce(compile_schema({"anyOf": [*KINDS[:20], {"type": "integer"}]}), json.loads(text), text)

    assert found is not None
    assert text.replace('"5"', "5") == found.text
