"""An executor's tools as an MCP server, in this process. Requirements 29 and 39."""

import asyncio

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from fcshim.mcp import InProcessTransport, McpServerConfig
from fcshim.mcp.gateway import Gateway
from fcshim.messages import MediaPart, TextPart
from fcshim.tools import CallContext, Executor, FunctionTool, Permissions, Registry, ToolProgress, ToolResult, Traits
from tests.mcp.server_programs import eventually, manager


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def slowly(context: CallContext) -> str:
    """Work."""
    for step in range(3):
        context.report(ToolProgress(step, 3, f"at {step}"))
    return "done"


def shown() -> ToolResult:
    """Show."""
    picture = MediaPart("image/png", data="iVBO")
    return ToolResult((TextPart("a"), picture, MediaPart("video/mp4", url="x")), structured={"a": 1})


def offering(*tools, **settings):
    return Gateway(Executor(Registry(tools), **settings))


@pytest.fixture(params=["auto", "legacy"])
def mode(request):
    return request.param


async def test_tools_are_listed_and_called(mode):
    gateway = offering(FunctionTool(add, traits=Traits(reads_only=True)))
    async with Client(gateway.server, mode=mode) as client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool("add", {"a": 1, "b": 2})

    assert ("add", "Add.", ["a", "b"]) == (tool.name, tool.description, tool.input_schema["required"])
    assert tool.annotations.read_only_hint
    assert "3" == result.content[0].text
    assert not result.is_error


async def test_arguments_are_repaired_and_checked(mode):
    async with Client(offering(add).server, mode=mode) as client:
        repaired = await client.call_tool("add", {"a": "1", "b": 2})
        wrong = await client.call_tool("add", {"a": "x"})

    assert "3" == repaired.content[0].text
    assert wrong.is_error
    assert "- a: expected integer, got string\n- b: missing" in wrong.content[0].text


async def test_a_call_waits_for_the_server_of_an_unknown_tool(mode):
    registry, waits = Registry(), []

    async def wait_servers(seconds):
        if not waits:
            registry.register(add)
        waits.append(seconds)

    gateway = Gateway(Executor(registry), wait_servers=wait_servers)
    async with Client(gateway.server, mode=mode) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})

    assert "3" == result.content[0].text
    assert 25 < waits[0] <= 30


async def test_content_of_every_kind_is_passed_on(mode):
    async with Client(offering(shown).server, mode=mode) as client:
        result = await client.call_tool("shown", {})

    assert ["text", "image", "text"] == [block.type for block in result.content]
    assert "[Video: video/mp4]" == result.content[2].text
    assert {"a": 1} == result.structured_content


async def test_progress_is_passed_on(mode):
    reports = []

    async def listen(progress, total, message):
        reports.append((progress, total, message))

    async with Client(offering(slowly).server, mode=mode) as client:
        result = await client.call_tool("slowly", {}, progress_callback=listen)
        await eventually(lambda: len(reports) == 3)

    assert "done" == result.content[0].text
    assert [(0, 3, "at 0"), (1, 3, "at 1"), (2, 3, "at 2")] == sorted(reports)


async def test_a_call_that_needs_approval_is_refused(mode):
    async with Client(offering(add, permissions=Permissions()).server, mode=mode) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})

    assert result.is_error
    assert "no user to ask" in result.content[0].text


async def test_an_invisible_tool_does_not_exist(mode):
    gateway = Gateway(Executor([add, shown]), visible=lambda tool: tool.definition.name == "add")
    async with Client(gateway.server, mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        with pytest.raises(MCPError) as hidden:
            await client.call_tool("shown", {})
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("other", {})

    assert ["add"] == names
    assert (-32602, "Unknown tool: 'shown'") == (hidden.value.error.code, hidden.value.error.message)
    assert (-32602, "Unknown tool: 'other'") == (unknown.value.error.code, unknown.value.error.message)


async def test_cancelling_a_call_cancels_the_work(mode):
    began, ended = asyncio.Event(), asyncio.Event()

    async def forever() -> None:
        """Never end."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Client(offering(forever).server, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("forever", {}))
        await began.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        async with asyncio.timeout(60):
            await ended.wait()


async def test_a_manager_connects_in_process_and_is_notified_of_changes():
    """Requirement 39: built-in servers are in process, and like any other."""
    registry = Registry([add])
    gateway = Gateway(Executor(registry))
    async with manager(McpServerConfig(name="builtin", transport=InProcessTransport(server=gateway.server))) as servers:
        result = await servers.call("builtin:add", {"a": 1, "b": 2})
        await asyncio.sleep(0.05)
        registry.register(shown)
        await gateway.notify_tools_changed()
        await eventually(lambda: servers.find("builtin:shown") is not None)

    assert "3" == result.text


async def test_a_long_result_is_cut(mode):
    async with Client(offering(FunctionTool(lambda: "x" * 60_000, name="flood")).server, mode=mode) as client:
        result = await client.call_tool("flood", {})

    assert "x\n(truncated: 8800 characters are left out here)\nx" in result.content[0].text
    assert len(result.content[0].text) < 52_000
