"""The agent loop as a stream of events."""

import asyncio
from contextlib import aclosing

import pytest

from fcshim.agent import Agent, RoundEnded
from fcshim.errors import ConfigError, ModelOutputError, ToolError, UpstreamError
from fcshim.events import Error, Text, ToolCallEnd
from fcshim.messages import AssistantMessage, SystemMessage, TextPart, ToolMessage
from fcshim.tools import (
    CallContext,
    CallFinished,
    CallProgressed,
    CallStarted,
    Executor,
    FunctionTool,
    Permissions,
    Registry,
    ToolProgress,
    ToolResult,
)
from tests.agent.model import HANG_FOREVER, ScriptedModel, call_reply, text_reply, user_message

QUESTION = user_message("What is 1 + 2?")


def add(a: int, b: int, context: CallContext) -> int:
    """Add."""
    context.report(ToolProgress(1, 1))
    return a + b


async def run(model, tools, **settings):
    events = Agent(model, tools if isinstance(tools, Executor) else Executor(tools), **settings).run([QUESTION])
    return [event async for event in events]


async def test_all_events_come_in_order():
    model = ScriptedModel(call_reply(("add", {"a": 1, "b": 2}), text="Let me add."), text_reply("It is 3."))
    events = await run(model, [add])
    kinds = [type(event).__name__ for event in events]

    assert [
        "Text",
        *("ToolCallStart", "ToolCallChunk", "ToolCallEnd", "Stop"),
        *("CallStarted", "CallProgressed", "CallFinished", "RoundEnded"),
        *("Text", "Stop", "RoundEnded"),
    ] == kinds
    assert "It is 3." == events[-1].answer
    assert events[8].answer is None
    assert ToolMessage("call_0", (TextPart("3"),), "add") == model.conversations[1][-1]
    assert (QUESTION, *model.conversations[1][1:], AssistantMessage((TextPart("It is 3."),))) == events[-1].messages


async def test_results_keep_the_order_of_the_calls():
    quick_ended = asyncio.Event()

    async def slow() -> str:
        await quick_ended.wait()
        return "slow"

    async def quick() -> str:
        asyncio.get_running_loop().call_later(0.01, quick_ended.set)
        return "quick"

    model = ScriptedModel(call_reply(("slow", {}), ("quick", {})), text_reply("done"))
    events = await run(model, [slow, quick])

    assert ["quick", "slow"] == [each.message.content[0].text for each in events if isinstance(each, CallFinished)]
    assert ["slow", "quick"] == [message.content[0].text for message in model.conversations[1][2:]]


async def test_the_model_gets_errors_as_results():
    def fail() -> None:
        raise ToolError("no such city")

    model = ScriptedModel(call_reply(("fail", {}), ("nothing", {})), text_reply("Sorry."))
    await run(model, [fail])
    first, second = model.conversations[1][2:]

    assert first.is_error
    assert "no such city\n[Analyze the error above" in first.content[0].text
    assert "There is no tool named nothing. Available: fail." in second.content[0].text


async def test_the_model_gets_a_denied_permission_as_a_result():
    model = ScriptedModel(call_reply(("add", {"a": 1, "b": 2})), text_reply("I may not."))
    await run(model, Executor([add], permissions=Permissions("ask")))

    assert "no user to ask" in model.conversations[1][-1].content[0].text


async def test_a_final_result_is_the_answer():
    tool = FunctionTool(lambda: ToolResult((TextPart("enough"),), final=True), name="stop")
    model = ScriptedModel(call_reply(("stop", {})))
    events = await run(model, [tool])

    assert "enough" == events[-1].answer
    assert 1 == len(model.conversations)


async def test_tools_may_change_between_rounds():
    registry = Registry()

    def learn() -> str:
        """Learn to add."""
        registry.register(add)
        return "learnt"

    registry.register(learn)
    model = ScriptedModel(call_reply(("learn", {})), call_reply(("add", {"a": 1, "b": 2})), text_reply("3"))
    await run(model, Executor(registry))

    assert [["learn"], ["learn", "add"], ["learn", "add"]] == model.tool_names


async def test_a_model_that_never_answers_is_stopped():
    model = ScriptedModel(*[call_reply(("add", {"a": 1, "b": 2}))] * 5)
    with pytest.raises(
        ModelOutputError, match="did not answer: it called tools in every reply, and max_rounds allows 3"
    ):
        await run(model, [add], max_rounds=3)

    assert 3 == len(model.conversations)


async def test_an_error_of_the_endpoint_is_raised():
    with pytest.raises(UpstreamError, match="it broke"):
        await run(ScriptedModel([Text("a"), Error("upstream_error", "it broke")]), [add])


async def test_calls_of_a_truncated_reply_are_not_executed():
    cut = [ToolCallEnd("call_0", "add", '{"a": 1, "b": 2}', 0), Text("x")]
    events = await run(ScriptedModel(cut), [add])

    assert not [event for event in events if isinstance(event, CallStarted)]
    assert "x" == events[-1].answer


async def test_closing_the_events_stops_the_model():
    model = ScriptedModel([Text("a"), HANG_FOREVER])
    async with aclosing(Agent(model, Executor([])).run([QUESTION])) as events:
        await anext(events)

    assert 1 == model.cancelled_count


async def test_cancelling_stops_the_model():
    model = ScriptedModel([Text("a"), HANG_FOREVER])
    running = asyncio.create_task(run(model, [add]))
    await model.hanging.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert 1 == model.cancelled_count


@pytest.mark.parametrize("way", ["leave", "cancel"])
async def test_stopping_stops_the_tools(way):
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def forever(context: CallContext) -> None:
        context.report(ToolProgress(1))
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def until_progress():
        async with aclosing(
            Agent(ScriptedModel(call_reply(("forever", {}))), Executor([forever])).run([QUESTION])
        ) as events:
            async for event in events:
                if isinstance(event, CallProgressed) and way == "leave":
                    return

    running = asyncio.create_task(until_progress())
    if way == "cancel":
        await begun.wait()
        running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert stopped.is_set()


async def test_answer_returns_the_last_round():
    ended = await Agent(ScriptedModel(text_reply("hello")), Executor([])).answer([QUESTION])

    assert isinstance(ended, RoundEnded)
    assert "hello" == ended.answer


def test_at_least_one_round_is_needed():
    with pytest.raises(ConfigError, match="max_rounds"):
        Agent(ScriptedModel(), Executor([]), max_rounds=0)


async def test_instructions_come_before_every_request_and_are_no_messages():
    model = ScriptedModel(call_reply(("add", {"a": 1, "b": 2})), text_reply("It is 3."))
    ended = await Agent(model, [add], instructions="Be brief.").answer("1 + 2?")
    system = SystemMessage((TextPart("Be brief."),))

    assert [system, system] == [messages[0] for messages in model.conversations]
    assert system not in ended.messages
    assert ended.messages[:3] == model.conversations[1][1:]
