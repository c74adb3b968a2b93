"""Tools in their accepted forms, and queries about a request."""

import pytest

from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import MediaPart, Request, TextPart, Tool, ToolMessage, UserMessage, as_tools, has_media
from fcshim.parse.stream import StreamParser
from fcshim.schema.limits import DEFAULT_TOOL_LIMITS, ToolLimits

SCHEMA = {"type": "object"}


def refusal(tools: JSON, limits: ToolLimits = DEFAULT_TOOL_LIMITS) -> RequestError:
    with pytest.raises(RequestError) as caught:
        as_tools(tools, limits)
    return caught.value


def nested(depth: int) -> JSON:
    schema: JSON = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    "tool",
    [
        Tool("f", "Does f.", SCHEMA),
        {"name": "f", "description": "Does f.", "parameters": SCHEMA},
        {"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": SCHEMA}},
    ],
)
def test_tools_come_in_every_usual_form(tool: JSON) -> None:
    assert (Tool("f", "Does f.", SCHEMA),) == as_tools([tool])


def test_a_dict_may_say_what_its_tool_returns() -> None:
    """Requirement 10."""
    assert (Tool("f", returns={"type": "number"}),) == as_tools([{"name": "f", "returns": {"type": "number"}}])
    assert "tools[0].returns" == refusal([{"name": "f", "returns": nested(2_000)}]).param


@pytest.mark.parametrize("tool", [5, None, "f", {}, {"name": 5}, {"function": "f"}, {"function": {"name": None}}])
def test_anything_else_is_refused(tool: JSON) -> None:
    error = refusal([{"name": "f"}, tool])

    assert error.message.startswith("tools[1]: expected {type: 'function', function: {name, ...}}, got ")
    assert "tools[1]" == error.param


def test_a_name_must_not_be_empty() -> None:
    assert "tools[0]: the name is empty" == refusal([{"name": ""}]).message


def test_a_name_comes_once() -> None:
    error = refusal([{"name": "f"}, {"name": "g"}, Tool("f")])

    assert "tools[2]: there are two tools named 'f'" == error.message
    assert "tools[2].name" == error.param


def test_tools_beyond_the_limits_are_refused() -> None:
    limits = ToolLimits(tools=2, schema_bytes=100, schema_depth=3)

    assert 2 == len(as_tools([Tool("f", "", nested(3)), Tool("g", "x" * 1_000, {"title": "x" * 80})], limits))
    assert "tools: at most 2 are allowed, got 3" == refusal([Tool(name) for name in "fgh"], limits).message
    assert (
        "tools[1] ('g'): the schema is nested deeper than 3"
        in refusal([Tool("f"), Tool("g", "", nested(4))], limits).message
    )
    assert (
        "tools[0] ('f'): the schema takes 112 bytes" in refusal([Tool("f", "", {"title": "x" * 100})], limits).message
    )


def test_a_parser_refuses_tools_beyond_the_limits() -> None:
    with pytest.raises(RequestError, match="at most 512 are allowed, got 513"):
        StreamParser(tools=[Tool(str(number)) for number in range(513)])
    with pytest.raises(RequestError, match="nested deeper than 64 levels"):
        StreamParser(tools=[Tool("f", "", nested(65))])
    with pytest.raises(RequestError, match="at most 524288 are allowed"):
        StreamParser(tools=[Tool("f", "", {"title": "x" * 524_288})])


def test_media_are_found_in_any_message() -> None:
    image = MediaPart("image/png", data="AAAA")
    text = UserMessage((TextPart("Look."),))

    assert not has_media(Request(model="m", messages=(text,)))
    assert has_media(Request(model="m", messages=(text, ToolMessage("1", (TextPart("Seen."), image)))))
