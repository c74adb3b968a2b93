"""The rounds of one reply, without a network: the next request, the stored turn, the end."""

import pytest

from fcshim.errors import ModelOutputError, UpstreamError
from fcshim.events import Error, Stop, Text, ToolCallEnd, ToolCallStart
from fcshim.messages import AssistantMessage, Request, TextPart, Tool, ToolCall, ToolChoice, ToolMessage, UserMessage
from fcshim.server.rounds import ToolLoop
from fcshim.tools import Executor

ASKED = (UserMessage((TextPart("Hi"),)),)
LOST = UpstreamError("lost")


def shout(word: str = "hey") -> str:
    """Say it loud."""
    return word.upper()


def new(max_rounds=4, **fields):
    turns = []
    request = Request(model="m", messages=ASKED, tools=(Tool("theirs"),), **fields)
    loop = ToolLoop(
        request,
        Executor([shout]),
        max_rounds=max_rounds,
        max_reply=100_000,
        store_turn=lambda shown, real: turns.append((shown, real)),
    )
    return loop, turns


def batch(*events):
    return [(0, event) for event in events]


def call(name, call_id):
    return [ToolCallStart(call_id, name, 0), ToolCallEnd(call_id, name, "{}", 0)]


OURS = AssistantMessage((), (ToolCall("1", "shout", "{}"),))
RESULT = ToolMessage("1", (TextPart("HEY"),), "shout")


async def test_the_next_request_holds_the_server_calls_and_their_results():
    loop, turns = new()
    loop.feed(batch(*call("shout", "1"), Stop("tool_use")))

    assert [] == await loop.next_round()
    assert (*ASKED, OURS, RESULT) == loop.request.messages
    assert not loop.finished

    loop.feed(batch(Text("Done."), Stop("complete")))
    said = AssistantMessage((TextPart("Done."),))

    assert loop.finished
    assert [(said, (OURS, RESULT, said))] == turns


async def test_a_mixed_turn_ends_after_the_server_calls():
    loop, turns = new()
    loop.feed(batch(*call("shout", "1"), *call("theirs", "2"), Stop("tool_use")))
    rest = await loop.next_round()
    theirs = ToolCall("2", "theirs", "{}")

    assert batch(Stop("tool_use")) == rest
    assert loop.finished
    assert [(AssistantMessage((), (theirs,)), (AssistantMessage((), (*OURS.tool_calls, theirs)), RESULT))] == turns


def test_a_reply_without_server_calls_stores_nothing():
    loop, turns = new()
    loop.feed(batch(*call("theirs", "2"), Stop("tool_use")))

    assert loop.finished
    assert [] == turns


async def test_a_required_tool_choice_stays_required():
    loop, _ = new(tool_choice=ToolChoice("required"))
    loop.feed(batch(*call("shout", "1"), Stop("tool_use")))
    await loop.next_round()

    assert ToolChoice("required") == loop.request.tool_choice


async def test_the_last_round_may_not_call_server_tools_only():
    loop, _ = new(max_rounds=1)
    loop.feed(batch(*call("shout", "1"), Stop("tool_use")))
    with pytest.raises(
        ModelOutputError, match="did not answer: it called tools in every reply, and max_rounds allows 1"
    ):
        await loop.next_round()
    loop, _ = new(max_rounds=1)
    loop.feed(batch(*call("shout", "1"), *call("theirs", "2"), Stop("tool_use")))

    assert await loop.next_round()


async def test_restart_is_possible_until_tools_have_run():
    loop, _ = new()
    loop.feed(batch(Error("upstream_error", "no tools here")))

    assert loop.finished
    assert not loop.is_committed

    loop.restart()

    assert not loop.finished

    loop.feed(batch(*call("shout", "1"), Stop("tool_use")))
    await loop.next_round()

    assert loop.is_committed


@pytest.mark.parametrize(
    "left", [[], batch(Error("upstream_error", "lost")), batch(*call("shout", "1"), Stop("tool_use"))]
)
def test_an_upstream_failure_gives_one_error_event(left):
    loop, turns = new()

    assert batch(Error("upstream_error", "lost")) == loop.fail(left, LOST)
    assert loop.finished
    assert [] == turns


def test_a_failure_after_the_stop_event_leaves_the_reply_complete():
    loop, _ = new()

    assert batch(Text("Done."), Stop("complete")) == loop.fail(batch(Text("Done."), Stop("complete")), LOST)
