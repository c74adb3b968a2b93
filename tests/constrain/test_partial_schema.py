"""Schemas whose members are in the order of an incomplete call."""

import pytest

from fcshim.constrain.partial_schema import order_by_prefix

POINT = {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}, "b": POINT, "c": True}, "required": ["a"]}


def order(prefix: str, schema=SCHEMA) -> list[str]:
    return list(order_by_prefix(schema, prefix)["properties"])


@pytest.mark.parametrize(
    ("prefix", "members"),
    [
        ("", "abc"),
        ("{", "abc"),
        ('{"c', "abc"),
        ('{"c":', "cab"),
        ('{"c": ', "cab"),
        ('{"c": 1, "a": "b:', "cab"),
        ('{"c": true', "cab"),
        ('{"c": 1', "cab"),
        ('{"c": 1, "a": "x", "b": {"y', "cab"),
        ('{"b": {"c": [{"c": 1}]}, "a": "', "bac"),
    ],
)
def test_members_in_the_prefix_come_first_in_its_order(prefix: str, members: str) -> None:
    assert list(members) == order(prefix)


def test_members_of_an_incomplete_object_are_ordered_too() -> None:
    found = order_by_prefix(SCHEMA, '{"b": {"y": 1, ')

    assert ["b", "a", "c"] == list(found["properties"])
    assert ["y", "x"] == list(found["properties"]["b"]["properties"])


def test_an_additional_member_becomes_a_named_one_unless_it_is_not_allowed() -> None:
    counted = {**SCHEMA, "additionalProperties": {"type": "integer"}}
    closed = {**SCHEMA, "additionalProperties": False}

    assert ["z", "a", "b", "c"] == order('{"z": 1', counted)
    assert {"type": "integer"} == order_by_prefix(counted, '{"z": 1')["properties"]["z"]
    assert ["a", "b", "c"] == order('{"z": 1', closed)


@pytest.mark.parametrize("schema", [True, {}, {"$ref": "#/$defs/x"}, {"properties": []}])
def test_an_unusual_schema_raises_no_error(schema) -> None:
    found = order_by_prefix(schema, '{"a": {"b": 1, ')

    assert schema is True or list(found["properties"]) == ["a"]


def test_the_original_schema_is_not_modified() -> None:
    order_by_prefix(SCHEMA, '{"c": 1, "b": {"y": 2}, "new": 3')

    assert ["a", "b", "c"] == list(SCHEMA["properties"])
    assert ["x", "y"] == list(POINT["properties"])
