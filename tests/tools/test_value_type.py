"""Python types to JSON Schema, and JSON to values of the types."""

import datetime as dt
import enum
import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Annotated, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import msgspec
import pydantic
import pytest
from annotated_types import Ge
from pydantic import BaseModel, Field

from fcshim.errors import ConfigError
from fcshim.tools.value_type import MistakesError, converter, schemas_of, to_plain, uses_pydantic


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


class City(BaseModel):
    """A place."""

    name: str = Field(description="its name", min_length=2, title="Name of the city")
    colour: Colour = Colour.RED
    inhabitants: Annotated[int, Field(ge=0)] = 0
    founded: dt.date | None = Field(None, alias="foundedOn")


CITY = {
    "type": "object",
    "description": "A place.",
    "properties": {
        "name": {"type": "string", "description": "its name", "minLength": 2},
        "colour": {"enum": ["red", "blue"], "type": "string", "default": "red"},
        "inhabitants": {"type": "integer", "minimum": 0, "default": 0},
        "foundedOn": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
    },
    "required": ["name"],
}
Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    items: list[Item]


@dataclass
class Trip:
    to: City
    days: Annotated[int, Field(ge=1)] = 3


@pydantic.dataclasses.dataclass
class Leg:
    miles: int


class Route(msgspec.Struct):
    days: int


class Family(BaseModel):
    members: list["Family"] = []


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (City, CITY),
        (list[City], {"type": "array", "items": CITY}),
        (
            Page[City],
            {"type": "object", "properties": {"items": {"type": "array", "items": CITY}}, "required": ["items"]},
        ),
        (Annotated[City, Field(description="where to")], CITY | {"description": "where to"}),
        (
            Annotated[int, Field(ge=1, description="how many")],
            {"type": "integer", "minimum": 1, "description": "how many"},
        ),
        (Annotated[int, Ge(2)], {"type": "integer", "minimum": 2}),
        (Leg, {"type": "object", "properties": {"miles": {"type": "integer"}}, "required": ["miles"]}),
        (
            Trip,
            {
                "type": "object",
                "properties": {"to": CITY, "days": {"type": "integer", "minimum": 1, "default": 3}},
                "required": ["to"],
            },
        ),
    ],
)
def test_pydantic_describes_its_own_types(kind, expected):
    assert ([expected], {}) == schemas_of([kind])


def test_types_of_both_libraries_keep_their_places():
    schemas, definitions = schemas_of([int, City, Node, Family, Point])

    assert [{"type": "integer"}, CITY, {"$ref": "#/$defs/Node"}, {"$ref": "#/$defs/Family"}, POINT] == schemas
    assert {"Node", "Family"} == set(definitions)


def test_a_union_names_no_definitions_that_are_inlined():
    ((schema,), definitions) = schemas_of([Annotated[Cat | Dog, Field(discriminator="kind")]])

    assert {} == definitions
    assert {"oneOf"} == set(schema)
    assert "$ref" not in json.dumps(schema)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (int, False),
        (Literal["pydantic"], False),
        (dict[str, list[Point]], False),
        (Node, False),
        (Annotated[int, "pydantic"], False),
        (dict[str, City | None], True),
        (tuple[Trip, ...], True),
        (NewType("Capital", City), True),
        (pydantic.HttpUrl, True),
    ],
)
def test_pydantic_is_asked_only_where_a_type_is_its_own(kind, expected):
    assert expected is uses_pydantic(kind)


def test_a_field_with_a_default_keeps_it_beside_a_type_that_is_inlined():
    @dataclass
    class Plan:
        at: Colour = Colour.BLUE
        point: Point = field(default_factory=lambda: Point(1.0))

    ((schema,), _) = schemas_of([Plan])

    assert {"enum": ["blue", "red"], "default": "blue"} == schema["properties"]["at"]
    assert POINT == schema["properties"]["point"]


def test_fields_may_be_named_like_keywords():
    class Keywords(TypedDict):
        default: Point
        enum: Point
        title: Point
        properties: Point
        required: Point

    ((schema,), definitions) = schemas_of([Keywords])

    assert {} == definitions
    assert dict.fromkeys(("default", "enum", "title", "properties", "required"), POINT) == schema["properties"]


def test_a_type_that_pydantic_cannot_describe_is_refused():
    with pytest.raises(ConfigError, match="Route"):
        schemas_of([dict[str, tuple[City, Route]]])


def test_two_recursive_types_of_one_name_are_refused():
    model = pydantic.create_model("Node", children=(list[Family], []))
    model.model_fields["children"].annotation = list[model]
    model.model_rebuild(force=True)

    with pytest.raises(ConfigError, match="two recursive types are named 'Node'"):
        schemas_of([Node, model])


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Point, {"x": 1}, Point(1.0)),
        (Colour, "red", Colour.RED),
        (City, {"name": "Oslo", "foundedOn": "1048-01-01"}, City(name="Oslo", foundedOn=dt.date(1048, 1, 1))),
        (Trip, {"to": {"name": "Oslo"}}, Trip(City(name="Oslo"))),
        (tuple[City, ...], [{"name": "Oslo"}], (City(name="Oslo"),)),
    ],
)
def test_json_becomes_a_value_of_the_type(kind, value, expected):
    assert expected == converter(kind)(value)


@pytest.mark.parametrize(
    ("kind", "value", "mistakes"),
    [
        (Point, {"x": "a"}, (".x: expected number, got string",)),
        (
            Trip,
            {"to": {"name": "O"}, "days": 0},
            (".to.name: string should have at least 2 characters", ".days: input should be greater than or equal to 1"),
        ),
        (list[City], [{"name": "Oslo"}, {}], ("[1].name: field required",)),
    ],
)
def test_each_mistake_has_its_place(kind, value, mistakes):
    with pytest.raises(MistakesError) as caught:
        converter(kind)(value)

    assert mistakes == caught.value.mistakes


def test_mistakes_are_limited():
    with pytest.raises(MistakesError) as caught:
        converter(list[City])([{}] * 1_000)

    assert 20 == len(caught.value.mistakes)


def test_models_become_plain_wherever_they_stand():
    cities = {"first": Trip(City(name="Oslo", foundedOn=dt.date(1048, 1, 1))), "all": [Colour.RED]}
    city = {"name": "Oslo", "colour": "red", "inhabitants": 0, "foundedOn": "1048-01-01"}

    assert {"first": {"to": city, "days": 3}, "all": ["red"]} == to_plain(cities)


def test_pydantic_is_imported_for_its_own_types_only():
    program = """
import sys
from dataclasses import dataclass
from fcshim.tools import FunctionTool
@dataclass
class Point:
    x: int = 1
def place(at: Point) -> Point:
    "Place it."
    return at
FunctionTool(place)
print("pydantic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "False\n" == done.stdout
