"""Servers' tools in a registry, called as a model calls them."""

from fcshim.events import ToolCallEnd
from fcshim.tools import Executor, Permissions, Registry
from tests.mcp.server_programs import manager, server


def call(name, arguments="{}"):
    return ToolCallEnd("call_0", f"mcp__f__{name}", arguments, 0)


async def answer(servers, *calls, **settings):
    messages = await Executor(Registry(servers.tools()), **settings).execute(calls)
    return [message.content[0].text for message in messages]


async def test_a_registry_executes_servers_tools():
    """Requirements 24, 29 and 35: lookup, repair, checks, routing."""
    async with manager(server()) as servers:
        done, wrong = await answer(servers, call("add", '{"a": "1", "b": 2}'), call("add", '{"b": "x"}'))

    assert "3" == done
    assert "- a: missing" in wrong
    assert "- b: expected integer, got string" in wrong


async def test_servers_tools_need_approval_unless_the_settings_allow_them():
    """Requirement 37."""
    async with manager(server(allow=("a*",))) as servers:
        permissions = Permissions()
        allowed, asked = await answer(
            servers, call("add", '{"a": 1, "b": 2}'), call("process"), permissions=permissions
        )

    assert "3" == allowed
    assert "It needs permission" in asked


async def test_a_servers_annotations_are_only_hints():
    async with manager(server()) as servers:
        traits = {tool.name: tool.traits for tool in servers.tools()}

    assert traits["add"].reads_only
    assert not traits["process"].reads_only
    assert {"ask"} == {each.sensitivity for each in traits.values()}
    assert {"mcp:f"} == {each.source for each in traits.values()}


async def test_results_of_read_only_tools_are_cached_if_configured():
    """Requirement 30."""
    async with manager(server(cache=60.0), server(called="g")) as servers:
        tool = servers.find("f:add")
        first = await tool.call({"a": 1, "b": 2})
        second = await servers.find("f:add").call({"a": 1, "b": 2})
        fresh = servers.find("g:add")

        assert first is second
        assert await fresh.call({"a": 1, "b": 2}) is not await fresh.call({"a": 1, "b": 2})
