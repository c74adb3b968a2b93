"""The tools for sub-agents. Requirements 38 and 43."""

import asyncio
import json
import re

import pytest

from fcshim.agent import Sessions, SubAgents
from fcshim.agent.subagents import SubAgentProfile, describe_kinds, load_profiles
from fcshim.errors import ConfigError
from fcshim.events import Error
from fcshim.mcp import Manager
from fcshim.mcp.loading import SessionTools
from fcshim.messages import SystemMessage
from fcshim.tools import FunctionTool, Permissions, Registry, Traits
from tests.agent.model import HANG_FOREVER, ScriptedModel, call_reply, text_reply, user_message
from tests.mcp.server_programs import eventually, is_running, stdio_transport
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

    assert [["Read", "Write", "mcp__a__b", "list_skills"], ["Read", "mcp__a__b", "list_skills"]] == model.tool_names


@pytest.mark.parametrize(
    ("own", "asked_for", "ran"),
    [
        ("ask", None, False),
        ("ask", "allow", False),
        ("allow", "ask", False),
        ("allow", "allow", True),
        ("allow", None, True),
        ("read_only", "allow", False),
        ("allow", "plan", False),
        ("allow", "acceptEdits", False),
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


PARENT = {
    "Read": "builtin:files",
    "Write": "builtin:files",
    "list_skills": "builtin:skills",
    "mcp__files__read": "mcp:files",
    "mcp__files__write": "mcp:files",
    "mcp__git__log": "mcp:git",
    "ListMcpResources": "mcp:resources",
    "SessionsSpawn": "builtin:sessions",
}
"""The tools of a parent, with their sources."""
EVERYTHING = [name for name in PARENT if name != "SessionsSpawn"]


@pytest.mark.parametrize(
    ("head", "named", "offered"),
    [
        ("", None, EVERYTHING),
        ("tools:", None, EVERYTHING),
        ("tools: Read", None, ["Read"]),
        ("tools: []", None, []),
        ("tools: [Read, 'Write']", None, ["Read", "Write"]),
        ("tools: Read Write", None, ["Read", "Write"]),
        ("tools:\n  - Read\n  - mcp__git__*", None, ["Read", "mcp__git__log"]),
        ("tools:\n- Read", None, ["Read"]),
        ("tools: Read", ["Write", "Read"], ["Read"]),
        ("tools: Read", ["Write"], []),
        ("tools: nothing", None, []),
        ("", ["Read"], ["Read", "list_skills", "mcp__files__read", "mcp__files__write", "mcp__git__log"]),
        ("mcpServerIds: git", None, ["Read", "Write", "list_skills", "mcp__git__log"]),
        ("mcpServerIds: []", None, ["Read", "Write", "list_skills"]),
        ("mcpServerIds: git\ntools: Read", None, ["Read", "mcp__git__log"]),
        ("mcpServerIds: git\ntools: mcp__files__read", None, ["mcp__git__log"]),
    ],
)
async def test_a_profile_allows_what_it_lists_and_nothing_else(tmp_path, head, named, offered):
    """Requirements 36 and 38."""
    (tmp_path / "kind.md").write_text(f"---\nmodel: small\n{head}\n---\nYou are one.\n")
    model = ScriptedModel(text_reply("ok"))
    given = [tool(name, source=source) for name, source in PARENT.items()]
    made, tools = agents(model, *given, profiles=load_profiles(tmp_path, {}))
    await result_text(tools, "spawn_agent", prompt="x", agent="kind", tools=named)

    assert [offered] == model.tool_names
    assert offered == (await made.tools_of("kind", named)).get_names()


@pytest.mark.parametrize("written", ["plan", "read_only"])
async def test_a_profile_narrows_the_permission(tmp_path, written):
    (tmp_path / "kind.md").write_text(f"---\npermissionMode: {written}\n---\nPlan.")
    model = ScriptedModel(call_reply(("Do", {})), text_reply("done"))
    profiles = load_profiles(tmp_path, {})
    _, tools = agents(model, tool("Do"), mode=lambda: "allow", permissions=Permissions, profiles=profiles)
    await result_text(tools, "spawn_agent", prompt="x", agent="kind", permissionMode="allow")

    assert model.conversations[1][-1].is_error


@pytest.mark.parametrize(
    ("head", "fault"),
    [
        ("permissionMode: yolo", "kind.md: there is no mode yolo; expected one of ask, accept_edits"),
        ("directMcpServers: none.json", "none.json: No such file"),
    ],
)
def test_a_mistake_in_a_profile_is_an_error_that_names_its_file(tmp_path, head, fault):
    (tmp_path / "kind.md").write_text(f"---\n{head}\n---\nx")
    with pytest.raises(ConfigError, match=re.escape(fault)):
        load_profiles(tmp_path, {})


async def test_a_rule_of_the_program_decides_which_tools_a_kind_may_have():
    model = ScriptedModel(text_reply("ok"), text_reply("ok"))
    _, tools = agents(
        model,
        tool("Read"),
        tool("Write"),
        profiles={"writer": SubAgentProfile()},
        eligible=lambda each, kind: each.definition.name == "Read" or kind == "writer",
    )
    await result_text(tools, "spawn_agent", prompt="x")
    await result_text(tools, "spawn_agent", prompt="x", agent="writer")

    assert [["Read"], ["Read", "Write"]] == model.tool_names


async def test_a_kind_has_servers_of_its_own(tmp_path):
    """Requirements 26 and 39: `server__tool`; they start at the first use, once, and end with the conversation."""
    transport = stdio_transport("raw", "good")
    settings = {"command": transport.command, "args": list(transport.args)}
    (tmp_path / "own.json").write_text(json.dumps({"mcpServers": {"mine": settings}}))
    (tmp_path / "kind.md").write_text("---\ntools: Read\ndirectMcpServers: own.json\n---\nx")
    model = ScriptedModel(call_reply(("mine__work", {})), text_reply("done"), text_reply("ok"), text_reply("ok"))
    made, tools = agents(
        model,
        tool("Read"),
        tool("Write"),
        mode=lambda: "allow",
        permissions=Permissions,
        profiles=load_profiles(tmp_path, {}),
        open_servers=lambda servers: SessionTools(Manager(servers)),
    )
    for kind in ("kind", None, "kind"):
        await result_text(tools, "spawn_agent", prompt="x", agent=kind)
    process = int(model.conversations[1][-1].content[0].text)

    assert [["Read", "mine__work"]] * 2 == model.tool_names[:2]
    assert [["Read", "Write"], ["Read", "mine__work"]] == model.tool_names[2:]
    assert is_running(process)
    await made.aclose()
    assert not is_running(process)


async def test_the_tools_that_start_agents_list_the_kinds():
    profiles = {"reviewer": SubAgentProfile(description="reads diffs"), "writer": SubAgentProfile()}
    made, tools = agents(ScriptedModel(), profiles=profiles)

    async def make_agent(kind):
        made.profile(kind)

    session_tools = Sessions(make_agent, lambda described: describe_kinds(described, profiles)).tools()

    for spawn in (tools[0], session_tools[0]):
        assert spawn.definition.description.endswith("Kinds of agents: reviewer (reads diffs), writer.")
    assert "There is no agent painter. There are: reviewer, writer." == await error_text(
        session_tools, "SessionsSpawn", prompt="x", agentId="painter"
    )
