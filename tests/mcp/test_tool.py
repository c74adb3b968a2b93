"""Servers' tools in a registry, called as a model calls them."""

import pytest
from mcp.types import CallToolResult, TextContent

from fcshim.events import ToolCallEnd
from fcshim.mcp.tool import to_tool_result
from fcshim.messages import TextPart
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
        calls = call("add", '{"a": "1", "b": 2}'), call("add", '{"b": "x"}')
        done, wrong = await answer(servers, *calls, permissions=Permissions("allow"))

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


@pytest.mark.security
@pytest.mark.parametrize(
    ("settings", "runs"),
    [
        ({}, []),
        ({"allow": ("process",)}, ["process"]),
        ({"trust": "annotations"}, ["add"]),
        ({"trust": "annotations", "allow": ("process",)}, ["add", "process"]),
    ],
)
async def test_without_permissions_only_allowed_and_trusted_tools_run(settings, runs):
    async with manager(server(**settings)) as servers:
        told = await answer(servers, call("add", '{"a": 1, "b": 2}'), call("process"))
        unattended = await answer(servers, call("add", '{"a": 1, "b": 2}'), call("process"), permissions=Permissions())

    assert runs == [name for name, text in zip(("add", "process"), told, strict=True) if "not executed" not in text]
    assert runs == [
        name for name, text in zip(("add", "process"), unattended, strict=True) if "not executed" not in text
    ]
    assert all("permissions=Permissions('allow')" in text for text in told if "not executed" in text)


@pytest.mark.security
async def test_tools_that_only_their_servers_word_would_let_run_are_named_at_the_start(caplog):
    async with (
        manager(server(), unattended=lambda tool: tool.traits.allowed),
        manager(server(called="g", trust="annotations"), unattended=lambda tool: tool.traits.allowed),
        manager(server(called="h")),
    ):
        pass
    (named,) = [record.message for record in caplog.records if "trust" in record.message]

    assert named.startswith("mcp__f__add: refused here, where nobody can be asked")


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


@pytest.mark.parametrize(
    ("texts", "structured", "shown"),
    [
        (["hello"], {"content": "hello"}, "hello"),
        (["5"], {"result": 5}, "5"),
        (["a", "b"], {"lines": "a\nb"}, "a\nb"),
        (['{"a": 1}'], {"a": 1}, '{"a": 1}'),
        (["[1]"], {"items": [1]}, "[1]"),
        (["one thing"], {"count": 1}, 'one thing\n{"count": 1}'),
        (["hello"], {"content": "hello", "more": True}, 'hello\n{"content": "hello", "more": true}'),
        ([], {"a": 1}, '{"a": 1}'),
    ],
)
def test_a_structured_result_is_not_given_twice(texts, structured, shown):
    blocks = [TextContent(type="text", text=text) for text in texts]
    result = to_tool_result(CallToolResult(content=blocks, structured_content=structured))

    assert (TextPart(shown),) == result.content
    assert structured == result.structured
