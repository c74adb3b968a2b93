"""Resources, prompts, completions and roots of servers."""

import msgspec
import pytest

from fcshim.errors import ToolError
from fcshim.mcp import Pins
from fcshim.mcp.hub import ToolHub
from fcshim.mcp.resources import ServerOffers, resource_bytes
from fcshim.messages import MediaPart, TextPart, UserMessage
from tests.mcp.server_programs import manager, server
from tests.tools.builtin.tool_calls import error_text, result_text


@pytest.fixture(scope="module")
def library():
    return server("library", called="l")


async def test_resources_are_listed_and_read(library):
    async with manager(library) as servers:
        offers = ServerOffers(servers)
        listed = {each.uri: each.template for each in await offers.resources("l")}
        (text,) = await offers.read("l", "book://one")
        (picture,) = await offers.read("l", "book://picture")

    assert {"book://one": False, "book://picture": False, "book://by/{author}": True} == listed
    assert b"Once upon a time" == resource_bytes(text)
    assert b"\x89PNG" == resource_bytes(picture)


async def test_the_model_reads_resources_with_two_tools(library):
    async with ToolHub(manager=manager(library)) as hub:
        tools = [tool for tool in hub.registry if tool.definition.name.endswith(("Resources", "Resource"))]
        listed = await result_text(tools, "ListMcpResources")
        read = await result_text(tools, "ReadMcpResource", server="l", uri="book://by/Ada")
        picture = await hub.registry.get("ReadMcpResource").call({"server": "l", "uri": "book://picture"})
        missing = await error_text(tools, "ReadMcpResource", server="l", uri="book://none")
        other = await error_text(tools, "ReadMcpResource", server="x", uri="book://none")

    assert "l book://one book A book." in listed
    assert "[Resource: book://by/Ada]\nbooks of Ada" == read
    assert (TextPart("[Resource: book://picture]"), MediaPart("image/png", data="iVBORw==")) == picture.content
    assert "The MCP server l failed" in missing
    assert "there is no MCP server named 'x'" in other


async def test_a_server_without_resources_adds_no_tools():
    async with ToolHub(manager=manager(server())) as hub:
        assert not hub.registry.has("ListMcpResources")


async def test_prompts_are_listed_completed_and_filled(library):
    async with manager(library) as servers:
        offers = ServerOffers(servers)
        (prompt,) = await offers.all_prompts()
        messages = await offers.get_prompt("l", "review", {"path": "a.py", "depth": "thorough"})
        proposals = await offers.complete("l", "review", "depth", "th")
        with pytest.raises(ToolError) as caught:
            await offers.get_prompt("l", "nothing", {})

    assert ("review", {"path": True, "depth": False}) == (prompt.name, prompt.arguments)
    assert (UserMessage((TextPart("Review a.py, thorough."),)),) == messages
    assert ["thorough"] == proposals
    assert "The MCP server l failed" in caught.value.message


async def test_a_server_may_ask_for_the_roots(tmp_path, library):
    old = msgspec.structs.replace(library, handshake=True)
    async with manager(old, roots=(tmp_path,), pins=Pins()) as servers:
        result = await servers.call("l:where", {})

    assert tmp_path.resolve().as_uri() == result.text


async def test_a_server_that_never_lists_its_resources_keeps_its_tools():
    async with manager(server("raw", "silent-resources")) as servers:
        assert not (await servers.call("f:work", {})).is_error
