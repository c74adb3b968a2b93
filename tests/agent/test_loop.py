"""The agent loop, with a scripted model."""

import pytest

from fcshim.agent import rounds, total_usage
from fcshim.agent.loop import AgentLoop
from fcshim.errors import ConfigError, ModelOutputError
from fcshim.events import CallError, ToolCallEnd, Usage
from fcshim.messages import AssistantMessage, TextPart, ToolCall, ToolMessage, UserMessage
from fcshim.reply import Reply
from fcshim.tools import Executor, FunctionTool, ToolResult

QUESTION = UserMessage((TextPart("What is 1 + 2?"),))
ANSWER = Reply(text="It is 3.", stop_reason="complete")


def add(a: int, b: int) -> int:
    """Add."""
    executed.append((a, b))
    return a + b


executed: list[tuple[int, int]] = []


@pytest.fixture(autouse=True)
def nothing_executed():
    executed.clear()


def calling(arguments='{"a": 1, "b": 2}', *, stop_reason="tool_use", error=None):
    return Reply(
        text="Let me add.",
        tool_calls=(ToolCallEnd("call_0", "add", arguments, 0, error=error),),
        stop_reason=stop_reason,
    )


class Script:
    """Returns replies in order and records the conversations."""

    def __init__(self, *replies):
        self._replies = iter(replies)
        self.conversations = []

    async def __call__(self, messages):
        self.conversations.append(messages)
        return next(self._replies)


async def run(script, **settings):
    return [each async for each in rounds(script, [QUESTION], Executor([add]), **settings)]


async def test_an_answer_without_calls_ends_the_run():
    (only,) = await run(Script(ANSWER))

    assert ANSWER == only.reply
    assert (QUESTION, AssistantMessage((TextPart("It is 3."),))) == only.messages


async def test_results_go_back_to_the_model():
    script = Script(calling(), ANSWER)
    first, last = await run(script)
    expected = (
        QUESTION,
        AssistantMessage((TextPart("Let me add."),), (ToolCall("call_0", "add", '{"a": 1, "b": 2}'),)),
        ToolMessage("call_0", (TextPart("3"),), "add"),
    )

    assert [(QUESTION,), expected] == script.conversations
    assert expected == first.messages
    assert ANSWER == last.reply


async def test_an_unreadable_call_is_sent_back_with_empty_arguments():
    error = CallError("malformed", "a value is missing", '{"a": }')
    script = Script(calling('{"a": ', stop_reason="complete", error=error), ANSWER)
    await run(script)
    _, spoken, result = script.conversations[1]

    assert "{}" == spoken.tool_calls[0].arguments
    assert result.is_error
    assert "a value is missing" in result.content[0].text
    assert [] == executed


@pytest.mark.parametrize("stop_reason", ["max_tokens", "content_filter"])
async def test_calls_of_a_truncated_reply_are_not_executed(stop_reason):
    (only,) = await run(Script(calling(stop_reason=stop_reason)))

    assert [] == executed
    assert (QUESTION, AssistantMessage((TextPart("Let me add."),))) == only.messages


async def test_a_model_that_never_answers_is_stopped():
    with pytest.raises(
        ModelOutputError, match="did not answer: it called tools in every reply, and max_rounds allows 3"
    ) as caught:
        await run(Script(*[calling()] * 4), max_rounds=3)

    assert "max_rounds" == caught.value.kind
    assert 2 == len(executed)


async def test_at_least_one_round_is_needed():
    with pytest.raises(ConfigError, match="max_rounds"):
        await run(Script(ANSWER), max_rounds=0)


def call(name, call_id, error=None):
    return ToolCallEnd(call_id, name, '{"a": 1, "b": 2}', 0, error=error)


async def ids_after(*calls):
    """Run the calls where only `add` runs here; return the ids of the conversation's calls and results, and the end."""
    loop = AgentLoop(Executor([add]), own_tools=["add"])
    await loop.run_tools(Reply(tool_calls=calls, stop_reason="tool_use"))
    message, *results = loop.messages
    return [each.id for each in message.tool_calls], [each.tool_call_id for each in results], loop.finished


async def test_valid_calls_of_other_tools_end_the_loop():
    broken = CallError("malformed", "", "")

    assert (["1", "2"], ["1"], True) == await ids_after(call("add", "1"), call("theirs", "2"))
    assert (["1", "2"], ["1"], True) == await ids_after(
        call("add", "1"), call("theirs", "2"), call("theirs", "3", error=broken)
    )


async def test_a_failed_call_of_another_tool_gets_a_result():
    broken = CallError("malformed", "", "")

    assert (["1", "2"], ["1", "2"], False) == await ids_after(call("add", "1"), call("theirs", "2", error=broken))


def test_usage_adds_up():
    assert Usage(11, 22, 3, 4) == total_usage([Usage(1, 2, 3, 4), None, Usage(10, 20)])
    assert total_usage([None]) is None


def stopping(a: int, b: int) -> ToolResult:
    return ToolResult((TextPart(f"enough: {a + b}"),), final=True)


STOP = FunctionTool(stopping, name="add")


async def test_a_final_result_ends_the_loop_with_its_text():
    script = Script(calling())
    (only,) = [each async for each in rounds(script, [QUESTION], Executor([STOP]))]

    assert "enough: 3" == only.answer
    assert ToolMessage("call_0", (TextPart("enough: 3"),), "add") == only.messages[-1]


async def test_only_the_last_round_has_the_answer():
    first, last = await run(Script(calling(), ANSWER))

    assert (None, "It is 3.") == (first.answer, last.answer)


async def test_a_call_that_may_end_the_loop_is_executed_in_the_last_reply():
    (only,) = [
        each async for each in rounds(Script(calling()), [QUESTION], Executor([STOP]), max_rounds=1, final_tool="add")
    ]

    assert "enough: 3" == only.answer


async def test_a_call_in_the_last_reply_that_did_not_end_the_loop_is_an_error():
    with pytest.raises(
        ModelOutputError, match="did not answer: it called tools in every reply, and max_rounds allows 1"
    ):
        [each async for each in rounds(Script(calling()), [QUESTION], Executor([add]), max_rounds=1, final_tool="add")]

    assert [(1, 2)] == executed
