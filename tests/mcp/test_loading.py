"""The servers' tools for one request, and the servers of one session."""

import logging

import pytest

from fcshim.errors import RequestError
from fcshim.events import ToolCallEnd
from fcshim.mcp import Manager
from fcshim.mcp.loading import SessionTools, load_tools
from fcshim.tools import Executor, Permissions, Registry
from tests.mcp.server_programs import eventually, is_running, manager, server


@pytest.mark.parametrize("enabled", [False, None])
async def test_disabled_or_unset_means_no_tools(enabled):
    """Requirement 15."""
    async with manager(server("raw")) as servers:
        assert load_tools(servers, enabled=enabled) is None


async def test_without_tools_the_result_is_none():
    """Requirement 16."""
    async with manager(server("raw", "dead")) as servers, manager() as none:
        assert load_tools(servers, enabled=True) is None
        assert load_tools(none, enabled=True) is None


@pytest.mark.parametrize(
    ("form", "key"), [("openai", "function"), ("anthropic", "input_schema"), ("gemini", "functionDeclarations")]
)
async def test_tools_are_returned_converted_and_raw_and_are_logged_by_server(form, key, caplog):
    """Requirements 12, 15 and 16."""
    caplog.set_level(logging.INFO, "fcshim.mcp.loading")
    async with manager(server("raw", called="one"), server("raw", "pages", called="two")) as servers:
        loaded = load_tools(servers, form, enabled=True)
        chosen = load_tools(servers, form, enabled=True, mode="manual", selected=["two"])

    assert all(key in each for each in loaded.converted)
    assert [("one", "work"), ("two", "work"), ("two", "more")] == [(tool.server, tool.name) for tool in loaded.tools]
    assert ["one: work", "two: work, more"] == [record.getMessage() for record in caplog.records][:2]
    assert {"two"} == {tool.server for tool in chosen.tools}


async def test_a_selected_server_must_be_configured():
    async with manager(server("raw")) as servers:
        with pytest.raises(RequestError, match="no MCP server named 'x'"):
            load_tools(servers, enabled=True, mode="manual", selected=["x"])


async def test_a_session_owns_its_servers():
    """Requirements 19, 25 and 26."""
    async with SessionTools(Manager([server("raw", called="one"), server("raw", called="two")])) as direct:
        registry = Registry()
        count = registry.register_all(direct.tools)
        names = registry.get_names()
        executor = Executor(registry, permissions=Permissions("allow"))
        (message,) = await executor.execute([ToolCallEnd("call_0", "one__work", "{}", 0)])
        process = int(message.content[0].text)

        assert is_running(process)

    await eventually(lambda: not is_running(process))

    assert 2 == count
    assert ["one__work", "two__work"] == names
