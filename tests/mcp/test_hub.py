"""All tools in one registry, kept up to date. Requirements 28 and 33."""

import pytest

from fcshim.mcp.hub import ToolHub
from fcshim.tools import FunctionTool, Traits
from fcshim.tools.custom import CustomTools
from tests.mcp.server_programs import eventually, manager, server

CUSTOM = 'def mine() -> str:\n    """Mine."""\n    return "1"\n'


def builtin():
    return FunctionTool(lambda: "x", name="Builtin", traits=Traits(source="builtin:test"))


async def test_tools_are_registered_in_order(tmp_path):
    (tmp_path / "a.py").write_text(CUSTOM)
    async with ToolHub([builtin()], custom=CustomTools(tmp_path), manager=manager(server("raw"))) as hub:
        names = hub.registry.get_names()

    assert ["Builtin", "mine", "mcp__f__work"] == names


@pytest.mark.engine
async def test_a_servers_new_tool_is_registered():
    hub = ToolHub([builtin()], manager=manager(server()))
    changes = []
    hub.set_change_listener(lambda: changes.append(1))
    async with hub:
        await hub.registry.get("mcp__f__learn").call({"name": "fresh"})
        await eventually(lambda: hub.registry.has("mcp__f__fresh"))

        assert "Builtin" == hub.registry.get_names()[0]
        assert changes


async def test_a_changed_custom_file_is_reloaded(tmp_path, monkeypatch):
    monkeypatch.setattr("fcshim.mcp.hub._POLL_SECONDS", 0.02)
    (tmp_path / "a.py").write_text(CUSTOM)
    async with ToolHub(custom=CustomTools(tmp_path)) as hub:
        (tmp_path / "b.py").write_text(CUSTOM.replace("mine", "yours"))
        await eventually(lambda: hub.registry.has("yours"))
        (tmp_path / "a.py").unlink()
        await eventually(lambda: not hub.registry.has("mine"))


async def test_the_order_stays_when_files_change_after_the_servers_have_connected(tmp_path, monkeypatch):
    """Requirement 28: built-in tools, custom tools, those of servers; a prompt's prefix stays up to the change."""
    monkeypatch.setattr("fcshim.mcp.hub._POLL_SECONDS", 0.02)
    async with ToolHub([builtin()], custom=CustomTools(tmp_path), manager=manager(server("raw"))) as hub:
        orders = [hub.registry.get_names()]
        for name, text in (
            ("b", CUSTOM),
            ("c", CUSTOM.replace("mine", "third")),
            ("a", CUSTOM.replace("mine", "first")),
            ("b", CUSTOM.replace("mine", "second") + CUSTOM),
            ("a", None),
        ):
            file = tmp_path / f"{name}.py"
            file.unlink() if text is None else file.write_text(text)
            await eventually(lambda: hub.registry.get_names() != orders[-1])
            orders.append(hub.registry.get_names())

    assert [
        ["Builtin", "mcp__f__work"],
        ["Builtin", "mine", "mcp__f__work"],
        ["Builtin", "mine", "third", "mcp__f__work"],
        ["Builtin", "first", "mine", "third", "mcp__f__work"],
        ["Builtin", "first", "second", "mine", "third", "mcp__f__work"],
        ["Builtin", "second", "mine", "third", "mcp__f__work"],
    ] == orders


async def test_a_failing_server_does_not_affect_the_others():
    async with ToolHub([builtin()], manager=manager(server("raw", "dead", called="bad"), server("raw"))) as hub:
        assert ["Builtin", "mcp__f__work"] == hub.registry.get_names()


async def test_a_name_that_is_taken_is_left_out(tmp_path, monkeypatch, caplog):
    """Two files with one name, and one with the name of a built-in tool: the others work, before and after a reload."""
    monkeypatch.setattr("fcshim.mcp.hub._POLL_SECONDS", 0.02)
    (tmp_path / "a.py").write_text(CUSTOM)
    (tmp_path / "b.py").write_text(CUSTOM + CUSTOM.replace("mine", "Builtin") + CUSTOM.replace("mine", "other"))
    (tmp_path / "c.py").write_text(
        "from fcshim.tools import FunctionTool\nTOOLS = [FunctionTool(lambda: 1, name='listed')]"
    )
    async with ToolHub([builtin()], custom=CustomTools(tmp_path)) as hub:
        first = hub.registry.get_names()
        (tmp_path / "a.py").unlink()
        await eventually(lambda: hub.registry.get("mine").traits.source == "custom:b")

    assert ["Builtin", "mine", "other", "listed"] == first
    assert "mine of custom:b is left out" in caplog.text
