"""Coercion of values to their schema."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.schema.coerce import coerce
from fcshim.schema.expect import compile_schema
from tests.schema.generate import roots, texts, validates


def strict(text):
    def refuse(word):
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)


@given(schema=roots(), text=texts())
def test_an_admitted_value_is_never_changed(schema, text):
    value = json.loads(text)
    found = coerce(compile_schema(schema), value, text)

    assert found is None or validates(schema, value) is not True


@given(schema=roots(), text=texts())
def test_a_coerced_value_is_strict_json_and_is_not_changed_again(schema, text):
    expectation = compile_schema(schema)
    found = coerce(expectation, json.loads(text), text)

    assert found is None or coerce(expectation, strict(found.text), found.text) is None


VECTORS = json.loads((Path(__file__).parent / "vectors" / "coerce.json").read_text("utf-8"))
CASES = [
    pytest.param(vector["schema"], case[0], case[-1], id=f"{vector['name']}: {case[0]}")
    for vector in VECTORS
    for case in vector["cases"]
]


@pytest.mark.parametrize(("schema", "text", "expected"), CASES)
def test_a_value_becomes_what_was_meant(schema, text, expected):
    found = coerce(compile_schema(schema), json.loads(text), text)

    assert expected == (text if found is None else found.text)
    assert (found is None) == (text == expected)


OBJECT = compile_schema(
    {
        "type": "object",
        "properties": {
            "a/b": {"type": "array", "items": {"type": "integer"}},
            "c~": {"type": "object", "properties": {"": {"type": "string"}}},
            "d": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "e": {"type": "boolean"},
        },
    }
)


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ('{"a/b": [1, "2", 3.0]}', [("/a~1b/1", "2", 2), ("/a~1b/2", 3.0, 3)]),
        ('{"c~": {"": 1.50}}', [("/c~0/", 1.5, "1.50")]),
        ('{"e": null, "a/b": "1"}', [("/e", None, None), ("/a~1b", "1", [1])]),
        ('{"c~": {"": 1e400}}', [("/c~0/", "1e400", "1e400")]),
    ],
)
def test_each_change_is_reported_with_its_path(text, changes):
    found = coerce(OBJECT, json.loads(text), text)

    assert found is not None
    assert changes == [(change.path, change.from_, change.to) for change in found.changes]


def test_a_value_that_changes_as_a_whole_is_reported_once():
    text = json.dumps({"d": json.dumps({"n": "5"})})
    found = coerce(OBJECT, json.loads(text), text)

    assert found is not None
    assert [("/d", '{"n": "5"}', [{"n": 5}])] == [(change.path, change.from_, change.to) for change in found.changes]


@pytest.mark.parametrize(
    "raw", ["", "{", "{'a': 1}", '{"a/b": "1", "a/b": "2"}', '{"e": "true", "x": NaN}', "[" * 100 + "]" * 100]
)
def test_invalid_json_is_not_coerced(raw):
    assert coerce(OBJECT, {}, raw) is None


def with_model_errors(draw, schema, value):
    """Write a valid value with the errors that coercion corrects."""
    spoilt = draw(st.booleans())
    kind = schema["type"]
    if kind == "object":
        members = {key: with_model_errors(draw, schema["properties"][key], member) for key, member in value.items()}
        absent = [key for key in schema["properties"] if key not in value and draw(st.booleans())]
        members |= dict.fromkeys(absent)
        return json.dumps(members) if spoilt else members
    if kind == "array":
        items = [with_model_errors(draw, schema["items"], item) for item in value]
        if spoilt and len(items) == 1 and schema["items"]["type"] != "array":
            return items[0]
        return json.dumps(items) if spoilt else items
    if not spoilt:
        return value
    if kind == "string":
        return value.upper() if "enum" in schema else float(value) if value == "1.5" else value
    return json.dumps(value) if kind != "integer" else draw(st.sampled_from([float(value), str(value), f"{value}.0"]))


PLAIN = st.recursive(
    st.sampled_from(
        [{"type": name} for name in ("string", "integer", "number", "boolean")]
        + [{"type": "string", "enum": ["celsius", "kelvin", "K"]}]
    ),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(
            lambda properties: {"type": "object", "properties": properties},
            st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
        )
    ),
    max_leaves=6,
)


def valid(draw, schema):
    """Draw a valid value of a plain schema."""
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    match schema["type"]:
        case "object":
            members = schema["properties"].items()
            return {key: valid(draw, member) for key, member in members if draw(st.booleans())}
        case "array":
            return [valid(draw, schema["items"]) for _ in range(draw(st.integers(0, 2)))]
        case "string":
            return draw(st.sampled_from(["", "x", "1.5", "true", "a b", '"']))
        case "integer":
            return draw(st.integers(-(10**6), 10**6))
        case "number":
            return draw(st.sampled_from([0, -1.5, 2.0, 1e20]))
        case _:
            return draw(st.booleans())


@given(st.data(), PLAIN)
def test_values_with_model_errors_are_restored(data, schema):
    meant = valid(data.draw, schema)
    text = json.dumps(with_model_errors(data.draw, schema, meant))
    found = coerce(compile_schema(schema), json.loads(text), text)

    assert json.dumps(meant) == json.dumps(json.loads(text if found is None else found.text))
