"""Limits on schemas."""

import pytest

from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.schema.limits import DEFAULT_TOOL_LIMITS, ToolLimits, check_schema

LIMITS = ToolLimits(schema_bytes=1_000, schema_depth=5)


def nested(depth: int) -> JSON:
    schema: JSON = {}
    for level in range(depth):
        schema = {"items": schema} if level % 2 else [schema]
    return schema


def refusal(schema: JSON, limits: ToolLimits = DEFAULT_TOOL_LIMITS) -> RequestError:
    with pytest.raises(RequestError) as caught:
        check_schema(schema, "tools[3] ('f')", limits, param="tools[3].parameters")
    return caught.value


@pytest.mark.parametrize(
    "schema", [None, {}, {"type": "object"}, nested(5), {"x": "y" * 900}, [[], [], [], [], [], []]]
)
def test_a_schema_within_the_limits_passes(schema: JSON) -> None:
    check_schema(schema, "tools[0]", LIMITS, param="tools[0]")


def test_a_deep_schema_is_refused_with_its_tool_and_the_limit() -> None:
    error = refusal(nested(6), LIMITS)

    assert "tools[3] ('f'): the schema is nested deeper than 5 levels, the most that are allowed" == error.message
    assert "tools[3].parameters" == error.param


def test_a_large_schema_is_refused_with_its_tool_its_size_and_the_limit() -> None:
    error = refusal({"x": "é" * 500}, LIMITS)

    assert "tools[3] ('f'): the schema takes 1008 bytes as JSON, at most 1000 are allowed" == error.message


def endless() -> JSON:
    schema: JSON = {}
    schema["items"] = schema
    return schema


@pytest.mark.parametrize("schema", [nested(100_000), endless()], ids=["deep", "endless"])
def test_depth_beyond_the_recursion_limit_is_refused_too(schema: JSON) -> None:
    assert "nested deeper than 64 levels" in refusal(schema).message


@pytest.mark.parametrize(
    "schema", [{"type": object}, {"enum": ["\ud800"]}, {(1,): 2}], ids=["a class", "half", "a key"]
)
def test_a_schema_that_is_not_json_is_refused(schema: JSON) -> None:
    assert refusal(schema).message.startswith("tools[3] ('f'): expected a schema that is JSON, but ")
