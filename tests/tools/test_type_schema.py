"""Python types to JSON Schema."""

import enum
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, TypedDict

import msgspec
import pytest

from fcshim.errors import ConfigError
from fcshim.tools.signature import schemas_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    """A place on the map."""

    x: float
    title: str = "here"


class Options(TypedDict, total=False):
    limit: int


class Pair(NamedTuple):
    left: Point
    right: Point


class Node(msgspec.Struct):
    name: str
    children: list["Node"] = []


POINT = {
    "type": "object",
    "description": "A place on the map.",
    "properties": {"x": {"type": "number"}, "title": {"type": "string", "default": "here"}},
    "required": ["x"],
}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (list[float], {"type": "array", "items": {"type": "number"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (Colour, {"enum": ["blue", "red"]}),
        (Annotated[int, msgspec.Meta(ge=1, le=7)], {"type": "integer", "minimum": 1, "maximum": 7}),
        (Point, POINT),
        (list[Point], {"type": "array", "items": POINT}),
        (Options, {"type": "object", "properties": {"limit": {"type": "integer"}}, "required": []}),
    ],
)
def test_a_type_is_inlined_where_it_is_used(kind, expected):
    assert ([expected], {}) == schemas_of([kind])


def test_a_type_used_twice_is_written_twice():
    ((schema,), definitions) = schemas_of([Pair])

    assert {} == definitions
    assert [POINT, POINT] == schema["prefixItems"]


def test_a_recursive_type_stays_behind_a_reference():
    ((schema,), definitions) = schemas_of([Node])

    assert {"$ref": "#/$defs/Node"} == schema
    assert {"$ref": "#/$defs/Node"} == definitions["Node"]["properties"]["children"]["items"]


def test_defaults_and_enum_values_are_data_and_not_searched_for_references():
    @dataclass
    class Odd:
        value: Literal["$ref"] = "$ref"

    ((schema,), definitions) = schemas_of([Odd])

    assert {} == definitions
    assert {"enum": ["$ref"], "default": "$ref"} == schema["properties"]["value"]


def test_a_type_without_a_json_form_is_refused_by_name():
    class Socket: ...

    with pytest.raises(ConfigError, match="Socket"):
        schemas_of([Socket])
