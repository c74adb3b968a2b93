"""The tools for sub-agents. Requirements 38 and 43."""

import asyncio

import pytest

from fcshim.agent import SubAgents
from fcshim.agent.subagents import SubAgentProfile
from fcshim.events import Error
from fcshim.messages import SystemMessage
from fcshim.tools import FunctionTool, Permissions, Registry, Traits
from tests.agent.model import HANG_FOREVER, ScriptedModel, call_reply, text_reply, user_message
from tests.mcp.server_programs import eventually
from tests.tools.builtin.tool_calls import error_text, result_text


def tool(name, **traits):
    return FunctionTool(lambda: name, name=name, traits=Traits(**traits))


def agents(model, *tools, **settings):
    made = SubAgents(model, Registry(tools), **settings)
    return made, made.tools()


async def test_a_sub_agent_returns_its_answer():
    model = ScriptedModel(text_reply("42"))
    _, tools = agents(model)

    assert "42" == await result_text(tools, "spawn_agent", prompt="Think.")
    assert (user_message("Think."),) == model.conversations[0]


async def test_a_sub_agent_inherits_tools_but_cannot_start_agents():
    model = ScriptedModel(text_reply("a"), text_reply("b"))
    given = [tool("Read"), tool("Write"), tool("mcp__a__b"), tool("list_skills")]
    made, tools = agents(model, *given)
    made._registry.register_all(tools)
    await result_text(tools, "spawn_agent", prompt="x")
    await result_text(tools, "spawn_agent", prompt="x", tools=["Read", "spawn_agent"])

    assert [["mcp__a__b", "list_skills"], ["Read", "mcp__a__b", "list_skills"]] == model.tool_names


@pytest.mark.parametrize(
    ("own", "asked_for", "ran"),
    [
        ("ask", None, False),
        ("ask", "allow", False),
        ("allow", "ask", False),
        ("allow", "allow", True),
        ("allow", None, True),
        ("read_only", "allow", False),
    ],
)
async def test_a_sub_agents_permission_is_not_wider_than_its_parents(own, asked_for, ran):
    model = ScriptedModel(call_reply(("Do", {})), text_reply("done"))
    _, tools = agents(model, tool("Do"), mode=lambda: own, permissions=Permissions)
    await result_text(tools, "spawn_agent", prompt="x", tools=["Do"], permissionMode=asked_for)

    assert ran == (not model.conversations[1][-1].is_error)


async def test_a_sub_agent_works_in_the_background():
    model = ScriptedModel([HANG_FOREVER], text_reply("42"))
    made, tools = agents(model)

    assert "There are none." == await result_text(tools, "subagent_list")
    assert "Started sub-agent agent-1." == await result_text(tools, "spawn_agent", prompt="Wait.", background=True)
    assert "Started sub-agent agent-2." == await result_text(tools, "spawn_agent", prompt="Think.", background=True)
    await eventually(lambda: made._runs["agent-2"].state == "done")
    assert "agent-1  running  Wait.\nagent-2  done  Think." == await result_text(tools, "subagent_list")
    assert "running" == await result_text(tools, "subagent_status", runId="agent-1")
    assert "done\n42" == await result_text(tools, "subagent_status", runId="agent-2")
    assert "There are: agent-1, agent-2." in await error_text(tools, "subagent_status", runId="x")
    await made.aclose()
    assert "stopped" == await result_text(tools, "subagent_status", runId="agent-1")
    assert 1 == model.cancelled_count


async def test_cancelling_the_wait_stops_the_sub_agent():
    model = ScriptedModel([HANG_FOREVER])
    made, tools = agents(model)
    waiting = asyncio.create_task(tools[0].call({"prompt": "x"}))
    await eventually(lambda: model.conversations)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await made.aclose()

    assert "stopped" == await result_text(tools, "subagent_status", runId="agent-1")
    assert 1 == model.cancelled_count


async def test_a_failure_is_an_error_for_the_parent():
    model = ScriptedModel([Error("upstream_error", "it broke")], *[call_reply(("x", {}))] * 2)
    _, tools = agents(model)

    assert "The sub-agent failed: it broke" == await error_text(tools, "spawn_agent", prompt="x")
    assert "did not answer: it called tools in every reply, and max_rounds allows 1" in await error_text(
        tools, "spawn_agent", prompt="x", maxIterations=1
    )


async def test_the_user_describes_kinds_of_agents():
    model = ScriptedModel(text_reply("ok"))
    profile = SubAgentProfile(system="You review.", tools=("Read",), model="small")
    _, tools = agents(model, tool("Read"), tool("Write"), profiles={"reviewer": profile})

    assert "ok" == await result_text(tools, "spawn_agent", prompt="x", agent="reviewer")
    assert [["Read"]] == model.tool_names
    assert ["small"] == model.models
    assert isinstance(model.conversations[0][0], SystemMessage)
    assert "There is no agent painter. There are: reviewer." == await error_text(
        tools, "spawn_agent", prompt="x", agent="painter"
    )


async def test_the_number_of_running_sub_agents_is_limited():
    model = ScriptedModel(*[[HANG_FOREVER]] * 8)
    made, tools = agents(model)
    for _ in range(8):
        await result_text(tools, "spawn_agent", prompt="x", background=True)

    assert "8 sub-agents are running already" in await error_text(tools, "spawn_agent", prompt="x")
    await made.aclose()
