"""Calls to results."""

import asyncio

import pytest

from fcshim.errors import ConfigError
from fcshim.events import CallError, ToolCallEnd
from fcshim.messages import TextPart, ToolMessage
from fcshim.tools import Executor, FunctionTool


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def subtract(a: int, b: int) -> int:
    """Subtract."""
    return a - b


def call(name, arguments="{}", *, number=0, error=None):
    return ToolCallEnd(f"call_{number}", name, arguments, number, error=error)


async def result_of(made, *tools, **settings):
    (message,) = await Executor(tools, **settings).execute([made])

    assert made.tool_call_id == message.tool_call_id
    return message


def text_of(message):
    (part,) = message.content
    return part.text


def test_definitions_come_in_the_order_of_the_tools():
    tools = Executor([subtract, FunctionTool(add, name="plus")])

    assert ["subtract", "plus"] == [tool.name for tool in tools.definitions]


async def test_a_call_gives_a_result_under_its_id():
    expected = ToolMessage("call_0", (TextPart("3"),), "add", is_error=False)

    assert expected == await result_of(call("add", '{"a": 1, "b": 2}'), add)


async def test_no_arguments_at_all_count_as_an_empty_object():
    assert "7" == text_of(await result_of(call("seven", ""), FunctionTool(lambda: 7, name="seven")))


async def test_an_unknown_tool_gives_a_hint_and_the_names():
    message = await result_of(call("ad"), add, subtract)

    assert message.is_error
    assert "There is no tool named ad. Did you mean add? Available: add, subtract." == text_of(message)


async def test_a_call_that_ended_with_an_error_is_told_and_not_executed():
    executed = []
    error = CallError("malformed", "a value is missing", '{"a": }')
    message = await result_of(call("note", error=error), FunctionTool(lambda: executed.append(1), name="note"))

    assert message.is_error
    assert 'The call was not executed (malformed): a value is missing\nIt was written so: {"a": }' == text_of(message)
    assert [] == executed


@pytest.mark.parametrize("arguments", ["[1]", "{", '"a"', "[" * 100_000])
async def test_arguments_that_are_not_an_object_fail(arguments):
    message = await result_of(call("add", arguments), add)

    assert message.is_error
    assert "The arguments are not a JSON object." == text_of(message)


async def test_a_call_that_takes_too_long_fails():
    async def forever():
        await asyncio.Event().wait()

    message = await result_of(call("forever"), forever, timeout=0.01)

    assert message.is_error
    assert "forever gave no result within 0.01 seconds." == text_of(message)


async def test_results_keep_the_order_of_the_calls():
    async def wait(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    calls = [call("wait", f'{{"seconds": {seconds}}}', number=i) for i, seconds in enumerate((0.03, 0.0, 0.01))]
    messages = await Executor([wait]).execute(calls)

    assert ["0.03", "0.0", "0.01"] == [text_of(message) for message in messages]


async def test_no_more_than_max_parallel_calls_run_at_once():
    running, most = 0, 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    await Executor([work], max_parallel=3).execute([call("work", number=i) for i in range(10)])

    assert 3 == most


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two tools named 'add'"):
        Executor([add, FunctionTool(subtract, name="add")])


def test_at_least_one_call_must_be_able_to_run():
    with pytest.raises(ConfigError, match="max_parallel"):
        Executor([add], max_parallel=0)
