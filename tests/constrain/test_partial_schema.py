"""Schemas in the order in which a call has begun."""

import pytest

from fcshim.constrain.partial_schema import order_by_prefix

POINT = {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}, "b": POINT, "c": True}, "required": ["a"]}


def order(begun: str, schema=SCHEMA) -> list[str]:
    return list(order_by_prefix(schema, begun)["properties"])


@pytest.mark.parametrize(
    ("begun", "members"),
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
def test_what_was_said_comes_first_as_it_was_said(begun: str, members: str) -> None:
    assert list(members) == order(begun)


def test_so_do_the_members_of_an_object_that_has_begun() -> None:
    found = order_by_prefix(SCHEMA, '{"b": {"y": 1, ')

    assert ["b", "a", "c"] == list(found["properties"])
    assert ["y", "x"] == list(found["properties"]["b"]["properties"])


def test_a_member_that_is_admitted_without_a_name_is_named_and_one_that_is_not_is_none() -> None:
    counted = {**SCHEMA, "additionalProperties": {"type": "integer"}}
    closed = {**SCHEMA, "additionalProperties": False}

    assert ["z", "a", "b", "c"] == order('{"z": 1', counted)
    assert {"type": "integer"} == order_by_prefix(counted, '{"z": 1')["properties"]["z"]
    assert ["a", "b", "c"] == order('{"z": 1', closed)


@pytest.mark.parametrize("schema", [True, {}, {"$ref": "#/$defs/x"}, {"properties": []}])
def test_an_odd_schema_is_no_trouble(schema) -> None:
    found = order_by_prefix(schema, '{"a": {"b": 1, ')

    assert schema is True or list(found["properties"]) == ["a"]


def test_the_schema_itself_stays_as_it_was() -> None:
    order_by_prefix(SCHEMA, '{"c": 1, "b": {"y": 2}, "new": 3')

    assert ["a", "b", "c"] == list(SCHEMA["properties"])
    assert ["x", "y"] == list(POINT["properties"])
