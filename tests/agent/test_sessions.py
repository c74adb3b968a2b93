"""The tools for sessions. Requirement 43."""

from fcshim.agent import Agent, Sessions
from fcshim.events import Error
from fcshim.tools import Executor
from tests.agent.model import HANG_FOREVER, ScriptedModel, call_reply, text_reply
from tests.mcp.server_programs import eventually
from tests.tools.builtin.tool_calls import call, error_text, result_text


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def sessions(*replies):
    model = ScriptedModel(*replies)

    async def make_agent(_):
        return Agent(model, Executor([add]))

    made = Sessions(make_agent)
    return made, made.tools(), model


async def test_a_session_is_started_written_to_and_read():
    made, tools, model = sessions(
        call_reply(("add", {"a": 1, "b": 2})), text_reply("3"), text_reply("You are welcome.")
    )

    assert "Started session-1." == await result_text(tools, "SessionsSpawn", prompt="1 + 2?", title="Sums")
    await eventually(lambda: made._sessions["session-1"].messages and not made._sessions["session-1"].lock.locked())
    assert "session-1  waiting  Sums" == await result_text(tools, "SessionsList")
    assert "You are welcome." == await result_text(tools, "SessionsSend", sessionId="session-1", message="Thanks.")
    history = await result_text(tools, "SessionsHistory", sessionId="session-1")
    assert [
        "user: 1 + 2?",
        'call: add {"a": 1, "b": 2}',
        "result: 3",
        "assistant: 3",
        "user: Thanks.",
        "assistant: You are welcome.",
    ] == history.splitlines()
    assert "assistant: You are welcome." == await result_text(tools, "SessionsHistory", sessionId="session-1", limit=1)
    assert 3 == len(model.conversations)


async def test_a_session_answers_one_message_at_a_time():
    made, tools, model = sessions([HANG_FOREVER])
    await result_text(tools, "SessionsSpawn", prompt="x")
    await eventually(lambda: model.conversations)

    assert "session-1  answering  x" == await result_text(tools, "SessionsList")
    assert "user: x\n(it is answering)" == await result_text(tools, "SessionsHistory", sessionId="session-1")
    await made.aclose()
    assert 1 == model.cancelled_count


async def test_a_failure_is_part_of_the_session():
    _, tools, _ = sessions(text_reply("a"), [Error("upstream_error", "it broke")], text_reply("b"))
    await result_text(tools, "SessionsSpawn", prompt="x")

    assert "(failed: it broke)" == await result_text(tools, "SessionsSend", sessionId="session-1", message="y")
    assert "b" == await result_text(tools, "SessionsSend", sessionId="session-1", message="z")


async def test_sessions_are_listed_by_limit_and_offset():
    made, tools, _ = sessions(*[text_reply("a")] * 3)
    for title in ("one", "two", "three"):
        await result_text(tools, "SessionsSpawn", prompt="x", title=title)

    assert "two" in await result_text(tools, "SessionsList", limit=1, offset=1)
    assert "There are none." == await result_text(tools, "SessionsList", offset=9)
    await made.aclose()


async def test_an_unknown_session_is_an_error():
    _, tools, _ = sessions()

    assert "There is no session x. There are: none." == await error_text(tools, "SessionsHistory", sessionId="x")


async def test_yielding_ends_the_turn():
    _, tools, _ = sessions()
    result = await call(tools, "SessionsYield", message="Done.")

    assert ("Done.", True) == (result.text, result.final)


async def test_only_starting_and_sending_need_permission():
    _, tools, _ = sessions()

    assert {"SessionsList", "SessionsHistory", "SessionsYield"} == {
        tool.definition.name for tool in tools if tool.traits.sensitivity == "safe"
    }
