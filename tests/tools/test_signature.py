"""Python signatures as tool parameters."""

import enum
import functools
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest
from pydantic import BaseModel, Field

from fcshim.errors import ConfigError, ToolError
from fcshim.tools.signature import ToolSignature

NOTHING = object()


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


@dataclass
class Point:
    x: int
    y: list[int]


class Node(msgspec.Struct):
    children: list["Node"] = []


def weather(
    city: str,
    unit: Unit = Unit.CELSIUS,
    days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 3,
    note: Annotated[str | None, "A remark."] = None,
    *,
    at: Point | None = None,
    mode: Literal["fast", "exact"] = "fast",
) -> str:
    return city


def signature_of(function, **descriptions):
    return ToolSignature(function, "weather", descriptions)


def faults_of(function, **arguments):
    with pytest.raises(ToolError) as caught:
        signature_of(function).bind(arguments)
    heading, *faults = caught.value.message.splitlines()

    assert "Wrong arguments for weather:" == heading
    return faults


def test_parameters_without_a_default_are_required():
    assert ["city"] == signature_of(weather).schema["required"]


def test_a_function_without_parameters_has_an_empty_object_schema():
    assert {"type": "object", "properties": {}} == signature_of(lambda: None).schema


def test_defaults_are_in_the_schema_unless_they_are_none():
    properties = signature_of(weather).schema["properties"]

    assert {"enum": ["c", "f"], "default": "c"} == properties["unit"]
    assert {"type": "integer", "minimum": 1, "maximum": 7, "default": 3} == properties["days"]
    assert "default" not in properties["note"]


def test_a_default_without_a_json_form_is_left_out():
    def function(when: Any = NOTHING): ...

    assert {} == signature_of(function).schema["properties"]["when"]


def test_an_annotated_text_takes_precedence_over_the_docstring():
    properties = signature_of(weather, note="From the docstring.", city="A city.").schema["properties"]

    assert "A remark." == properties["note"]["description"]
    assert "A city." == properties["city"]["description"]


def test_a_parameter_without_annotation_takes_any_value():
    assert {"anything": {}} == signature_of(lambda anything: None).schema["properties"]


def test_recursive_types_are_defined_once():
    def function(first: Node, second: Node): ...

    schema = signature_of(function).schema

    assert {"$ref": "#/$defs/Node"} == schema["properties"]["second"]
    assert ["Node"] == list(schema["$defs"])


def test_string_annotations_are_resolved():
    def function(count: "int"): ...

    assert {"count": {"type": "integer"}} == signature_of(function).schema["properties"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *args: None, r"\*args has no schema"),
        (lambda **kwargs: None, r"\*\*kwargs has no schema"),
        (dict, "signature cannot be read"),
    ],
)
def test_a_signature_without_a_schema_is_refused(function, message):
    with pytest.raises(ConfigError, match=f"tool 'weather'.*{message}"):
        signature_of(function)


def test_an_annotation_that_does_not_resolve_is_refused():
    def function(count: "Nowhere"): ...  # noqa: F821 - the point of the test

    with pytest.raises(ConfigError, match=r"does not resolve.*Nowhere"):
        signature_of(function)


def test_a_type_without_a_json_form_is_refused_with_the_parameter():
    class Socket: ...

    def function(good: int, bad: Socket): ...

    with pytest.raises(ConfigError, match=r"parameter 'bad'.*Socket"):
        signature_of(function)


def test_binding_makes_python_values():
    bound = signature_of(weather).bind({"city": "Oslo", "unit": "f", "at": {"x": 1, "y": [2]}})

    assert ("Oslo", Unit.FAHRENHEIT, 3, None) == bound.args
    assert {"at": Point(1, [2]), "mode": "fast"} == bound.kwargs


def test_binding_reaches_positional_only_parameters():
    def function(a: int, /, b: int): ...

    assert (1, 2) == signature_of(function).bind({"b": 2, "a": 1}).args


def test_binding_respects_what_a_partial_has_fixed():
    bound = signature_of(functools.partial(weather, "Oslo")).bind({"days": 2})

    assert {"days": 2, "mode": "fast"}.items() <= bound.arguments.items()
    assert "city" not in bound.arguments


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        ({}, ["- city: missing"]),
        ({"city": 5}, ["- city: expected string, got integer"]),
        ({"city": "Oslo", "days": 9}, ["- days: expected integer <= 7"]),
        ({"city": "Oslo", "unit": "k"}, ['- unit: invalid enum value \'k\' (allowed: "c", "f")']),
        ({"city": "Oslo", "mode": 1}, ['- mode: expected string, got integer (allowed: "exact", "fast")']),
        ({"city": "Oslo", "at": {"x": 1, "y": [1, "2"]}}, ["- at.y[1]: expected integer, got string"]),
        ({"city": "Oslo", "at": {"x": 1}}, ["- at: object missing required field y"]),
        ({"city": "Oslo", "Days": 2}, ["- Days: no such parameter, did you mean days?"]),
    ],
)
def test_each_mistake_has_its_message(arguments, faults):
    assert faults == faults_of(weather, **arguments)


def test_all_mistakes_are_reported_at_once():
    faults = faults_of(weather, days="x", zebra=1)

    assert [
        "- zebra: no such parameter (there are: city, unit, days, note, at, mode)",
        "- city: missing",
        "- days: expected integer, got string",
    ] == faults


def test_a_parameter_that_may_be_left_out_needs_no_null():
    def search(path: str | None = None, size: int | str | None = None, both: int | None = 3):
        return path

    properties = signature_of(search).schema["properties"]

    assert {"type": "string"} == properties["path"]
    assert "anyOf" in properties["size"]
    assert "anyOf" in properties["both"]


class Place(BaseModel):
    """A place."""

    city: str = Field(min_length=2)


def travel(
    to: Place,
    days: int = Field(3, ge=1, description="how long"),
    stops: list[str] = Field(default_factory=list),  # noqa: B008 - as pydantic's users write it
    pace: Annotated[int, Field(default=5, le=9)] = 5,
    *,
    reason: Annotated[str, Field(description="why")] = Field(...),
    fast: Annotated[bool, Field(default=True)],
) -> str:
    return "gone"


def test_a_field_of_pydantic_gives_bounds_description_and_default():
    schema = signature_of(travel, to="the goal", days="unused", reason="unused").schema

    assert ["to", "reason"] == schema["required"]
    assert {"type": "integer", "minimum": 1, "description": "how long", "default": 3} == schema["properties"]["days"]
    assert {"type": "integer", "maximum": 9, "default": 5} == schema["properties"]["pace"]
    assert {"type": "string", "description": "why"} == schema["properties"]["reason"]
    assert "the goal" == schema["properties"]["to"]["description"]
    assert {"type": "string", "minLength": 2} == schema["properties"]["to"]["properties"]["city"]


def test_binding_uses_the_defaults_of_fields_anew_each_time():
    signature = signature_of(travel)
    first, second = (signature.bind({"to": {"city": "Oslo"}, "reason": "rest"}) for _ in range(2))

    assert {"to": Place(city="Oslo"), "days": 3, "stops": [], "pace": 5, "reason": "rest", "fast": True} == dict(
        first.arguments
    )
    assert first.arguments["stops"] is not second.arguments["stops"]


def test_mistakes_in_models_have_their_places():
    assert [
        "- to.city: string should have at least 2 characters",
        "- days: input should be greater than or equal to 1",
        "- reason: missing",
    ] == faults_of(travel, to={"city": "O"}, days=0)
