"""Functions as tools."""

import asyncio
import functools
import threading

import pytest
from pydantic import BaseModel

from fcshim.errors import ConfigError, ToolError
from fcshim.messages import MediaPart, TextPart, Tool
from fcshim.tools.base import CallContext
from fcshim.tools.function import DocstringParts, FunctionTool, parse_docstring
from fcshim.tools.result import ToolResult


def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first.
    """
    return a + b


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.value = 0

    def count(self, by: int) -> int:
        """Count further."""
        self.value += by
        return self.value

    async def __call__(self, by: int) -> int:
        return self.count(by)


def raising(error):
    def function():
        raise error

    return FunctionTool(function)


def test_name_description_and_schema_come_from_the_function():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first."},
            "b": {"type": "integer", "default": 1},
        },
        "required": ["a"],
    }

    expected = Tool(name="add", description="Add two numbers.", parameters=schema, returns={"type": "integer"})

    assert expected == FunctionTool(add).definition


def test_name_and_description_can_be_given():
    definition = FunctionTool(add, name="plus", description="Sum.").definition

    assert ("plus", "Sum.") == (definition.name, definition.description)


async def test_an_async_function_is_awaited():
    async def double(x: int) -> int:
        return x * 2

    assert "42" == (await FunctionTool(double).call({"x": 21})).text


async def test_a_sync_function_runs_in_a_thread():
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert "false" == (await FunctionTool(where).call({})).text


async def test_a_bound_method_is_a_tool():
    tool = FunctionTool(Counter().count)
    await tool.call({"by": 2})

    assert "count" == tool.definition.name
    assert "5" == (await tool.call({"by": 3})).text


async def test_an_object_that_can_be_called_is_a_tool_once_it_has_a_name():
    assert "2" == (await FunctionTool(Counter(), name="count").call({"by": 2})).text


@pytest.mark.parametrize("function", [lambda: None, functools.partial(add, 1), Counter()])
def test_a_function_without_a_name_of_its_own_needs_one(function):
    with pytest.raises(ConfigError, match="name="):
        FunctionTool(function)


def test_a_generator_is_refused():
    def numbers():
        yield 1

    async def more_numbers():
        yield 1

    for function in (numbers, more_numbers):
        with pytest.raises(ConfigError, match="generator"):
            FunctionTool(function)


async def test_wrong_arguments_are_a_failed_result():
    expected = ToolResult((TextPart("Wrong arguments for add:\n- a: missing"),), is_error=True)

    assert expected == await FunctionTool(add).call({})


async def test_an_exception_is_a_failed_result_with_a_short_message():
    result = await raising(KeyError("x" * 5_000)).call({})

    assert result.is_error
    assert result.text.startswith("KeyError: 'xxx")
    assert 2_000 == len(result.text)


async def test_the_message_of_a_tool_error_is_unchanged():
    assert ToolResult((TextPart("no such city"),), is_error=True) == await raising(ToolError("no such city")).call({})


async def test_cancelling_a_call_is_not_swallowed():
    async def forever():
        await asyncio.Event().wait()

    task = asyncio.create_task(FunctionTool(forever).call({}))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_call_context_is_hidden_from_the_model():
    """Requirement 33: a tool gets arguments and context."""

    def tell(context: CallContext, word: str) -> str:
        return f"{word} {context.call_id}"

    tool = FunctionTool(tell)

    assert ["word"] == list(tool.definition.parameters["properties"])
    assert "hello call_7" == (await tool.call({"word": "hello"}, CallContext("call_7"))).text


async def test_a_tool_result_is_returned_unchanged():
    made = ToolResult((MediaPart("image/png", data="iVBO"),))

    assert made is await FunctionTool(lambda: made, name="shot").call({})


GOOGLE = """Look up the weather.

    Worldwide.

    Args:
        city: The city's
            English name.
        days (int, optional): How many days.

    Returns:
        str: What to expect.

    Raises:
        ValueError: Never.
    """

NUMPY = """Look up the weather.

    Worldwide.

    Parameters
    ----------
    city : str
        The city's
        English name.
    days : int, optional
        How many days.

    Returns
    -------
    str
        What to expect.
    """

SPHINX = """Look up the weather.

    Worldwide.

    :param city: The city's
        English name.
    :param int days: How many days.
    :returns: What to expect.
    :raises ValueError: Never.
    """


def function_with(docstring):
    def weather(city, days):
        pass

    weather.__doc__ = docstring
    return weather


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX])
def test_the_three_styles_have_the_same_result(docstring):
    expected = DocstringParts(
        summary="Look up the weather.\n\nWorldwide.",
        parameters={"city": "The city's English name.", "days": "How many days."},
    )

    assert expected == parse_docstring(function_with(docstring))


def test_numpy_style_may_describe_several_parameters_at_once():
    docstring = "Add.\n\nParameters\n----------\nx, y : float\n    A summand.\n"

    assert {"x": "A summand.", "y": "A summand."} == parse_docstring(function_with(docstring)).parameters


@pytest.mark.parametrize("docstring", ["Just say: hello.", ":param broken", "Args: none, really"])
def test_a_docstring_in_no_style_is_all_description(docstring):
    assert DocstringParts(summary=docstring, parameters={}) == parse_docstring(function_with(docstring))


def test_without_a_docstring_there_is_no_description():
    assert DocstringParts(summary="", parameters={}) == parse_docstring(function_with(None))


def test_a_partial_function_is_described_by_the_function_inside():
    assert "Just this." == parse_docstring(functools.partial(function_with("Just this."), "Paris")).summary


async def test_a_model_that_is_returned_is_json():
    class Weather(BaseModel):
        city: str
        degrees: float

    async def get_weather(cities: list[str]) -> list[Weather]:
        return [Weather(city=city, degrees=21.5) for city in cities]

    result = await FunctionTool(get_weather).call({"cities": ["Oslo"]})

    assert '[{"city": "Oslo", "degrees": 21.5}]' == result.text


def test_the_schema_of_the_result_comes_from_the_annotation():
    """Requirement 10."""

    async def names() -> list[str]:
        """List."""
        return []

    def anything() -> ToolResult:
        """Do."""

    def nothing() -> None:
        """Do."""

    def numbers() -> complex:
        """Do."""

    tools = [FunctionTool(function).definition for function in (names, anything, nothing, numbers)]

    assert [{"type": "array", "items": {"type": "string"}}, None, None, None] == [tool.returns for tool in tools]
