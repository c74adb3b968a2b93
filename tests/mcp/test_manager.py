"""Servers made with the SDK, over every transport and both generations of the protocol."""

import asyncio
import contextlib
import os
import signal

import pytest

from fcshim.errors import ConfigError, RequestError
from fcshim.mcp import InProcessTransport, McpServerConfig, Pins, StdioTransport
from fcshim.mcp.connection import ConnectionTimeouts
from fcshim.mcp.connection_state import ConnectionState
from fcshim.messages import MediaPart, TextPart
from fcshim.tools.base import CallContext
from tests.engine.process import free_port
from tests.mcp.server_programs import eventually, manager, serve_over_http, server
from tests.mcp.servers import friendly

WAYS = ["stdio", "http", "json", "stateless", "sse", "in-process"]
ERAS = [pytest.param(False, id="2026"), pytest.param(True, id="handshake")]


@contextlib.contextmanager
def reached(way):
    if way == "stdio":
        yield server().transport
    elif way == "in-process":
        yield InProcessTransport(server=friendly.server)
    else:
        with serve_over_http(way) as endpoint:
            yield endpoint


@pytest.mark.parametrize("handshake", ERAS)
@pytest.mark.parametrize("way", WAYS)
async def test_every_transport_lists_and_calls(way, handshake):
    """Requirements 31 and 23: every transport, both generations of the protocol, with progress."""
    reports = []
    with reached(way) as reach:
        async with manager(McpServerConfig(name="f", transport=reach, handshake=handshake)) as servers:
            (status,) = servers.status()
            names = [tool.definition.name for tool in servers.tools()]
            result = await servers.call("mcp__f__add", {"a": 1, "b": 2})
            counted = await servers.call("f:count", {"to": 3}, CallContext("c", reports.append))
            await eventually(lambda: len(reports) == 3 or way == "json")

    assert ConnectionState.READY is status.state
    assert handshake == (status.protocol_version < "2026")
    assert names[:2] == ["mcp__f__add", "mcp__f__fail"]
    assert "3" == result.text
    assert {"result": 3} == result.structured
    assert "counted" == counted.text
    if way != "json":
        assert [(1.0, 3.0, "at 1"), (2.0, 3.0, "at 2"), (3.0, 3.0, "at 3")] == [
            (step.done, step.total, step.message) for step in sorted(reports, key=lambda step: step.done)
        ]


async def test_one_failing_server_does_not_affect_the_others():
    """Requirement 18."""
    bad = McpServerConfig(name="bad", transport=StdioTransport(command="/there/is/no/such/program"))
    async with manager(bad, server()) as servers:
        states = [(status.name, status.state) for status in servers.status()]
        result = await servers.call("f:add", {"a": 1, "b": 2})
        missing = await servers.call("bad:anything", {})

    assert [("bad", ConnectionState.WAITING), ("f", ConnectionState.READY)] == states
    assert "3" == result.text
    assert missing.is_error
    assert "'bad' is not connected: '/there/is/no/such/program' was not found" in missing.text


async def test_content_of_every_kind_is_converted():
    """Requirement 21."""
    async with manager(server()) as servers:
        result = await servers.call("f:mixed", {})
        failure = await servers.call("f:die_not", {})

    assert [TextPart, MediaPart, TextPart] == [type(part) for part in result.content]
    assert (
        "first\nsecond\n[Image: image/png]\n[Resource: file:///a.txt] a\n[Resource: file:///b.txt]\nof b"
        == result.flat_text
    )
    assert failure.is_error
    assert "has no tool named f:die_not" in failure.text


async def test_a_failing_tool_is_a_failed_result():
    """Requirement 22."""
    async with manager(server()) as servers:
        result = await servers.call("f:fail", {"message": "no"})

    assert result.is_error
    assert "fail" in result.text


async def test_arguments_are_checked_before_the_server_sees_them():
    """Requirement 24: each kind of violation has its own message."""
    async with manager(server()) as servers:
        results = [
            await servers.call("f:add", arguments)
            for arguments in ({}, {"b": "x"}, {"a": 1, "b": None}, {"a": [1], "b": 2}, {"a": 1, "b": 2})
        ]

    assert [
        "Wrong arguments for mcp__f__add:\n- a: missing\n- b: missing",
        "Wrong arguments for mcp__f__add:\n- b: expected integer, got string\n- a: missing",
        "Wrong arguments for mcp__f__add:\n- b: expected integer, got null",
        "Wrong arguments for mcp__f__add:\n- a: expected integer, got array",
        "3",
    ] == [result.text for result in results]


@pytest.mark.parametrize("name", ["mcp__f__a__b", "f:a__b", "f__a__b"])
async def test_a_tool_is_found_by_all_three_names(name):
    """Requirement 19: a tool's name may contain the separator."""
    async with manager(server()) as servers:
        result = await servers.call(name, {})

    assert "found" == result.text


async def test_two_servers_may_have_tools_of_one_name():
    """Requirement 19."""
    async with manager(server(called="one"), server(called="two")) as servers:
        first, second = [await servers.call(f"{name}:process", {}) for name in ("one", "two")]

    assert first.text != second.text


async def test_a_requests_settings_select_the_servers():
    """Requirements 15 and 16."""
    async with manager(server(called="one"), server(called="two")) as servers:
        everything = {tool.server for tool in servers.tools(mode=None)}
        chosen = {tool.server for tool in servers.tools(mode="manual", selected=["two"])}

        assert () == servers.tools(enabled=False)
        assert () == servers.tools(enabled=None)
        assert () == servers.tools(mode="manual")
        with pytest.raises(RequestError, match=r"no MCP server named 'three' \(configured: one, two\)"):
            servers.tools(mode="manual", selected=["three"])

    assert {"one", "two"} == everything
    assert {"two"} == chosen


def test_two_servers_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two MCP servers named 'f'"):
        manager(server(), server())


async def test_a_call_that_takes_too_long_fails():
    """Requirement 23."""
    async with manager(server(timeout=2.0)) as servers:
        result = await servers.call("f:slow", {"seconds": 30})
        again = await servers.call("f:add", {"a": 1, "b": 2})

    assert result.is_error
    assert "slow gave no result within 2 seconds" in result.text
    assert "3" == again.text


async def test_a_cancelled_call_leaves_the_server_usable():
    """Requirement 23."""
    async with manager(server()) as servers:
        call = asyncio.create_task(servers.call("f:slow", {"seconds": 30}))
        await asyncio.sleep(0.1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        result = await servers.call("f:add", {"a": 1, "b": 2})

    assert "3" == result.text


async def test_a_server_that_dies_in_a_call_fails_the_call_and_is_restarted():
    """Requirement 32."""
    async with manager(server()) as servers:
        before = await servers.call("f:process", {})
        died = await servers.call("f:die", {})
        after = await servers.call("f:process", {})

    assert died.is_error
    assert "lost during the call, which may have been done" in died.text
    assert not after.is_error
    assert before.text != after.text


async def test_a_server_that_is_killed_while_idle_is_restarted():
    """Requirement 32: a lost connection is opened again."""
    async with manager(server()) as servers:
        os.kill(int((await servers.call("f:process", {})).text), signal.SIGKILL)
        await eventually(lambda: servers.status()[0].state is not ConnectionState.READY)
        await eventually(lambda: servers.status()[0].state is ConnectionState.READY)


@pytest.mark.parametrize("handshake", ERAS)
@pytest.mark.parametrize("way", ["http", "stateless", "sse"])
async def test_a_call_waits_for_a_restarting_server(way, handshake):
    """A restarted server has lost the session (404) or refuses connections; a call that was not sent waits."""
    port = free_port()
    with contextlib.ExitStack() as first:
        endpoint = first.enter_context(serve_over_http(way, port))
        async with manager(McpServerConfig(name="f", transport=endpoint, handshake=handshake)) as servers:
            await servers.call("f:add", {"a": 1, "b": 2})
            await asyncio.to_thread(first.close)
            call = asyncio.create_task(servers.call("f:add", {"a": 1, "b": 2}))
            await asyncio.sleep(0.5)
            with serve_over_http(way, port):
                result = await call

    assert "3" == result.text


@pytest.mark.parametrize("way", ["http", "stateless"])
@pytest.mark.parametrize("handshake", ERAS)
async def test_a_lost_session_is_replaced_by_a_new_one(way, handshake):
    """The server restarts between two calls: 404 for the old session, no connection lost."""
    port = free_port()
    with contextlib.ExitStack() as first:
        endpoint = first.enter_context(serve_over_http(way, port))
        async with manager(McpServerConfig(name="f", transport=endpoint, handshake=handshake)) as servers:
            before = await servers.call("f:process", {})
            await asyncio.to_thread(first.close)
            with serve_over_http(way, port):
                after = await servers.call("f:process", {})

    assert not after.is_error
    assert before.text != after.text


@pytest.mark.parametrize("handshake", ERAS)
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_new_tools_are_listed(way, handshake):
    changes = []
    with reached(way) as reach:
        settings = McpServerConfig(name="f", transport=reach, handshake=handshake)
        async with manager(settings, on_change=lambda: changes.append(1)) as servers:
            changes.clear()
            await servers.call("f:learn", {"name": "fresh"})
            await eventually(lambda: servers.find("f:fresh") is not None)
            result = await servers.call("f:fresh", {})

    assert "new" == result.text
    assert changes


@pytest.mark.parametrize("handshake", ERAS)
async def test_a_changed_tool_disables_the_server_until_approval(handshake):
    async with manager(server(handshake=handshake)) as servers:
        await servers.call("f:turn", {})
        await eventually(lambda: servers.status()[0].changed_tools)
        offered = servers.tools()
        refused = await servers.call("f:fail", {"message": "x"})
        servers.approve("f")
        after = await servers.call("f:add", {"a": "5", "b": "2"})

    assert () == offered
    assert refused.is_error
    assert "changed what it says of add, and waits for approval" in refused.text
    assert "5" == after.text


async def test_an_approval_by_another_process_takes_effect(tmp_path):
    file, friend = tmp_path / "pins.json", server()
    async with manager(friend, pins=Pins(file)) as servers:
        await servers.call("f:turn", {})
        await eventually(lambda: servers.status()[0].changed_tools)
        offered = servers.tools()
        async with manager(friend, pins=Pins(file)) as others:
            await others.call("f:turn", {})
            await eventually(lambda: others.status()[0].changed_tools)
            others.approve("f")
        found = servers.tools()

    assert () == offered
    assert "add" in [tool.name for tool in found]


async def test_servers_are_started_concurrently(tmp_path):
    """Each of twenty servers answers when all of them run."""
    many = [server("raw", "together", str(tmp_path), "20", called=f"s{number}") for number in range(20)]
    async with manager(*many, timeouts=ConnectionTimeouts(start=60.0, connect=60.0)) as servers:
        states = {status.state for status in servers.status()}

    assert {ConnectionState.READY} == states


async def test_a_slow_server_does_not_delay_the_others(tmp_path):
    """It is added when it is ready."""
    timeouts = ConnectionTimeouts(start=5.0)
    changes = []
    slow, quick = server("raw", "together", str(tmp_path), "2", called="slow"), server("raw", called="quick")
    async with manager(slow, quick, timeouts=timeouts, on_change=lambda: changes.append(1)) as servers:
        await eventually(servers.tools)
        first, before = [tool.server for tool in servers.tools()], len(changes)
        (tmp_path / "now").touch()
        await eventually(lambda: len(servers.tools()) == 2)

    assert ["quick"] == first
    assert (1, 2) == (before, len(changes))
