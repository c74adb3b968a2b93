"""References by name: `$id`, `$anchor`, `$dynamicAnchor`."""

import json

import pytest

from fcshim.constrain.calls import grammar_of_document
from fcshim.constrain.references import with_pointers
from fcshim.parse.dialects import FUNCTION_CALL
from tests.constrain.matcher import Matcher

INTEGER = {"type": "integer"}
ADDRESS = {"$id": "address", "properties": {"zip": {"$ref": "#/$defs/zip"}}, "$defs": {"zip": INTEGER}}
LIST = {"$id": "list", "items": {"$dynamicRef": "#item"}, "$defs": {"any": {"$dynamicAnchor": "item"}}}


@pytest.mark.parametrize(
    ("schema", "refused", "admitted"),
    [
        ({"$ref": "#n", "$defs": {"a": {"$anchor": "n", **INTEGER}}}, ["x"], [5]),
        ({"$ref": "#n", "definitions": {"a": {"$id": "#n", **INTEGER}}}, ["x"], [5]),
        ({"$ref": "#/$defs/b", "$defs": {"a": {"$id": "#n"}, "c": {"$id": ""}, "b": INTEGER}}, ["x"], [5]),
        ({"$ref": "n", "$defs": {"a": {"$id": "n", **INTEGER}}}, ["x"], [5]),
        ({"$id": "https://a/b/c", "$ref": "n", "$defs": {"a": {"$id": "/b/n", **INTEGER}}}, ["x"], [5]),
        ({"$id": "urn:a", "$ref": "urn:a#/$defs/a%20b", "$defs": {"a b": INTEGER}}, ["x"], [5]),
        (
            {
                "$id": "urn:a",
                "$ref": "#/$defs/a",
                "$defs": {"a": {"$ref": "urn:a#n"}, "b": {"$anchor": "n", **INTEGER}},
            },
            ["x"],
            [5],
        ),
        ({"$ref": "n#/$defs/x", "$defs": {"a~/b": {"$id": "n", "$defs": {"x": INTEGER}}}}, ["x"], [5]),
        ({"$ref": "address", "$defs": {"a": ADDRESS, "zip": {"type": "string"}}}, [{"zip": "x"}], [{"zip": 5}]),
        ({"$dynamicRef": "#n", "$defs": {"a": {"$dynamicAnchor": "n", **INTEGER}}}, ["x"], [5]),
        ({"$ref": "list", "$defs": {"a": LIST, "b": {"$dynamicAnchor": "item", **INTEGER}}}, [["x"]], [[5]]),
    ],
)
def test_a_name_in_the_schema_is_followed(schema, refused, admitted):
    grammar = grammar_of_document(schema, FUNCTION_CALL)
    matcher = Matcher(grammar)

    assert [] == [note for note in grammar.notes if "not enforced" in note]
    assert [] == [value for value in refused if matcher.admits(json.dumps(value))]
    assert [] == [value for value in admitted if not matcher.admits(json.dumps(value))]


@pytest.mark.parametrize(
    ("schema", "note"),
    [
        ({"$ref": "https://example.org/a"}, "the reference 'https://example.org/a' is not enforced"),
        ({"$id": "https://[", "$ref": "http://[#a"}, "the reference 'http://[#a' is not enforced"),
        ({"$ref": "#n", "const": {"$anchor": "n"}}, "the reference '#n' is not enforced"),
        (
            {"$ref": "a", "$defs": {name: {"$id": name, "$dynamicAnchor": "n", "$dynamicRef": "#n"} for name in "ab"}},
            "$dynamicRef is not enforced",
        ),
    ],
)
def test_a_reference_without_a_certain_target_is_noted(schema, note):
    assert note in grammar_of_document(schema, FUNCTION_CALL).notes


def test_a_pointer_too_deep_to_rewrite_never_names_another_schema():
    inner: dict = {"$ref": "#/$defs/x"}
    for _ in range(70):
        inner = {"allOf": [inner]}
    schema = {"$ref": "n", "$defs": {"x": {"type": "string"}, "a": {"$id": "n", "$defs": {"x": INTEGER}, **inner}}}
    named = with_pointers(schema)["$defs"]["a"]
    for _ in range(70):
        named = named["allOf"][0] if "allOf" in named else named

    assert {"$ref": "n"} == named
    assert Matcher(grammar_of_document(schema, FUNCTION_CALL)).admits("5")


def test_a_name_too_far_away_is_noted_and_its_pointers_stay_its_own():
    far = {"a" * 2_000: {"$id": "n", "$ref": "#/$defs/x", "$defs": {"x": INTEGER}}}
    grammar = grammar_of_document({"$id": "r", "properties": far, "$defs": {"x": {"type": "string"}}}, FUNCTION_CALL)

    assert "the reference 'n' is not enforced" in grammar.notes


@pytest.mark.parametrize("schema", [True, {"properties": {"$id": {"$ref": "#/$defs/a"}}, "$defs": {"a": INTEGER}}])
def test_a_schema_without_names_stays_itself(schema):
    assert schema is with_pointers(schema)
