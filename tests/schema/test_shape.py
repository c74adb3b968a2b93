"""One alternative of a schema."""

import pytest

from fcshim.schema.expect import SchemaShape, scalar_key
from fcshim.schema.node import KINDS


def shape(*schemas):
    return SchemaShape(schemas, lambda inner: inner)


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({}, KINDS),
        ({"type": "integer"}, {"integer"}),
        ({"type": "number"}, {"integer", "fraction"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"type": "string", "nullable": True}, {"string", "null"}),
        ({"type": "string", "nullable": "yes"}, {"string"}),
        ({"enum": ["a", {"b": 1}]}, {"string", "object"}),
        ({"const": 5}, {"integer", "fraction"}),
        ({"const": 5, "type": "integer"}, {"integer"}),
        ({"const": "a", "enum": ["a", "b"]}, {"string"}),
        ({"const": "c", "enum": ["a", "b"]}, set()),
        ({"type": "int"}, KINDS),
        ({"type": []}, KINDS),
        ({"type": {"a": 1}}, KINDS),
        ({"enum": []}, KINDS),
        ({"enum": [float("nan")]}, KINDS),
        ({"enum": [{1}]}, KINDS),
    ],
)
def test_type_enum_and_const_decide_the_admitted_kinds(schema, kinds):
    assert kinds == shape(schema).kinds


def test_a_conjunction_admits_less():
    narrow = shape({"type": ["string", "integer"]}, {"enum": ["a", 1, None]}, {"enum": ["a", None]})

    assert {"string"} == narrow.kinds
    assert {scalar_key("a"), scalar_key(None)} == narrow.values


@pytest.mark.parametrize(
    ("kind", "value", "taken"),
    [
        ("integer", 1, True),
        ("fraction", 1.0, True),
        ("boolean", True, False),
        ("string", "1", False),
        ("object", None, True),
    ],
)
def test_values_are_compared_as_in_json_schema(kind, value, taken):
    assert taken == shape({"enum": [1, {"a": 1}]}).admits(kind, value)


@pytest.mark.parametrize(("text", "found"), [("OFF", "off"), ("ON", None), ("off", "off"), ("x", None)])
def test_letter_case_is_ignored_where_the_match_is_unique(text, found):
    assert found == shape({"enum": ["on", "On", "off", 1]}).find_ignoring_case(text)


def test_a_lone_surrogate_is_never_a_coerced_value():
    assert shape({"enum": ["\ud800A"]}).find_ignoring_case("\ud800a") is None


def test_members_use_properties_else_additional_properties():
    integer, string, boolean = {"type": "integer"}, {"type": "string"}, {"type": "boolean"}
    both = shape(
        {"properties": {"a": integer}, "additionalProperties": string},
        {"properties": {"b": boolean}, "patternProperties": {"x": string}, "additionalProperties": False},
    )

    assert (integer,) == both.member("a")
    assert (string, boolean) == both.member("b")
    assert (string,) == both.member("c")
    assert both.admits_member("c")


def test_unknown_keys_take_no_memory():
    compiled = []
    open_shape = SchemaShape(({"properties": {"a": True}},), lambda schemas: compiled.append(schemas) or schemas)
    for number in range(100):
        open_shape.member(f"key {number}")
    open_shape.member("a")
    open_shape.member("a")

    assert 2 == len(compiled)


def test_elements_use_prefix_items_else_items():
    compiled = []
    schema = {"prefixItems": ["first", "second"], "items": "rest"}
    array = SchemaShape(
        (schema, {"items": ["old"], "additionalItems": "others"}), lambda inner: compiled.append(inner) or inner
    )

    assert [("first", "old"), ("second", "others"), ("rest", "others")] == [array.item(index) for index in range(3)]
    assert [array.item(2)] * 97 == [array.item(index) for index in range(3, 100)]
    assert 3 == len(compiled)


@pytest.mark.parametrize(("keys", "admitted"), [("a", True), ("b", False)])
def test_a_closed_object_admits_only_its_properties(keys, admitted):
    assert admitted == shape({"properties": {"a": True}, "additionalProperties": False}).admits_member(keys)


def test_shapes_of_scalars_are_merged():
    first, second = shape({"const": "a"}), shape({"enum": ["b", 1]})

    assert first.merge_scalars(second)
    assert {scalar_key("a"), scalar_key("b"), scalar_key(1)} == first.values
    assert {"string", "integer", "fraction"} == first.kinds


@pytest.mark.parametrize("other", [{"type": "string"}, {"enum": ["b", {}]}])
def test_other_shapes_are_not_merged(other):
    assert not shape({"const": "a"}).merge_scalars(shape(other))
    assert not shape(other).merge_scalars(shape({"const": "a"}))
