"""The rounds of one reply, without a network: the next request, the stored turn, the end."""

import pytest

from fcshim.errors import ModelOutputError, UpstreamError
from fcshim.events import Error, Stop, Text, ToolCallEnd, ToolCallStart
from fcshim.messages import AssistantMessage, Request, TextPart, Tool, ToolCall, ToolChoice, ToolMessage, UserMessage
from fcshim.server.tool_loop import ToolLoop
from fcshim.tools import Executor

ASKED = (UserMessage((TextPart("Hi"),)),)
LOST = UpstreamError("lost")


def shout(word: str = "hey") -> str:
    """Say it loud."""
    return word.upper()


def new(max_rounds=4, **fields):
    kept = []
    request = Request(model="m", messages=ASKED, tools=(Tool("theirs"),), **fields)
    course = ToolLoop(
        request,
        Executor([shout]),
        max_rounds=max_rounds,
        max_reply=1_000,
        store_turn=lambda shown, real: kept.append((shown, real)),
    )
    return course, kept


def batch(*events):
    return [(0, event) for event in events]


def call(name, call_id):
    return [ToolCallStart(call_id, name, 0), ToolCallEnd(call_id, name, "{}", 0)]


OURS = AssistantMessage((), (ToolCall("1", "shout", "{}"),))
RESULT = ToolMessage("1", (TextPart("HEY"),), "shout")


async def test_the_next_request_holds_the_server_calls_and_their_results():
    course, kept = new()
    course.feed(batch(*call("shout", "1"), Stop("tool_use")))

    assert [] == await course.run_tools()
    assert (*ASKED, OURS, RESULT) == course.request.messages
    assert not course.finished

    course.feed(batch(Text("Done."), Stop("complete")))
    said = AssistantMessage((TextPart("Done."),))

    assert course.finished
    assert [(said, (OURS, RESULT, said))] == kept


async def test_a_mixed_turn_ends_after_the_server_calls():
    course, kept = new()
    course.feed(batch(*call("shout", "1"), *call("theirs", "2"), Stop("tool_use")))
    rest = await course.run_tools()
    theirs = ToolCall("2", "theirs", "{}")

    assert batch(Stop("tool_use")) == rest
    assert course.finished
    assert [(AssistantMessage((), (theirs,)), (AssistantMessage((), (*OURS.tool_calls, theirs)), RESULT))] == kept


def test_a_reply_without_server_calls_stores_nothing():
    course, kept = new()
    course.feed(batch(*call("theirs", "2"), Stop("tool_use")))

    assert course.finished
    assert [] == kept


async def test_a_required_tool_choice_stays_required():
    course, _ = new(tool_choice=ToolChoice("required"))
    course.feed(batch(*call("shout", "1"), Stop("tool_use")))
    await course.run_tools()

    assert ToolChoice("required") == course.request.tool_choice


async def test_the_last_round_may_not_call_server_tools_only():
    course, _ = new(max_rounds=1)
    course.feed(batch(*call("shout", "1"), Stop("tool_use")))
    with pytest.raises(ModelOutputError, match="still calls tools in reply 1"):
        await course.run_tools()
    course, _ = new(max_rounds=1)
    course.feed(batch(*call("shout", "1"), *call("theirs", "2"), Stop("tool_use")))

    assert await course.run_tools()


async def test_restart_is_possible_until_tools_have_run():
    course, _ = new()
    course.feed(batch(Error("upstream_error", "no tools here")))

    assert course.finished
    assert not course.has_run_tools

    course.restart()

    assert not course.finished

    course.feed(batch(*call("shout", "1"), Stop("tool_use")))
    await course.run_tools()

    assert course.has_run_tools


@pytest.mark.parametrize(
    "left", [[], batch(Error("upstream_error", "lost")), batch(*call("shout", "1"), Stop("tool_use"))]
)
def test_an_upstream_failure_gives_one_error_event(left):
    course, kept = new()

    assert batch(Error("upstream_error", "lost")) == course.fail(left, LOST)
    assert course.finished
    assert [] == kept


def test_a_failure_after_the_stop_event_leaves_the_reply_complete():
    course, _ = new()

    assert batch(Text("Done."), Stop("complete")) == course.fail(batch(Text("Done."), Stop("complete")), LOST)
