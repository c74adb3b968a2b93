"""Pinned tool definitions."""

import pytest
from mcp.types import Tool

from fcshim.errors import ConfigError
from fcshim.mcp import McpServerConfig, Pins, StdioTransport

SERVER = McpServerConfig(name="s", transport=StdioTransport(command="a"))


def tool(name="t", description="Do.", **properties):
    return Tool(name=name, description=description, input_schema={"type": "object", "properties": properties})


def test_a_tool_is_pinned_when_first_seen():
    pins = Pins()

    assert () == pins.check(SERVER, [tool()])
    assert () == pins.check(SERVER, [tool()])


@pytest.mark.parametrize("other", [tool(description="Do evil."), tool(key={"type": "string"})])
def test_a_changed_tool_is_reported(other):
    pins = Pins()
    pins.check(SERVER, [tool()])

    assert ("t",) == pins.check(SERVER, [other])
    assert ("t",) == pins.check(SERVER, [other])


def test_a_removed_tool_that_returns_changed_is_reported():
    pins = Pins()
    pins.check(SERVER, [tool()])

    assert () == pins.check(SERVER, [])
    assert ("t",) == pins.check(SERVER, [tool(description="Do evil.")])


def test_a_new_tool_is_pinned_unless_another_has_changed():
    pins = Pins()
    pins.check(SERVER, [tool()])

    assert () == pins.check(SERVER, [tool(), tool("new")])
    assert ("t",) == pins.check(SERVER, [tool(description="Do evil."), tool("newer")])
    assert ("t",) == pins.check(SERVER, [tool(description="Do evil."), tool("newer", "Help it.")])


def test_approval_pins_the_current_tools():
    pins = Pins()
    pins.check(SERVER, [tool()])
    pins.approve(SERVER, [tool(description="Do more.")])

    assert () == pins.check(SERVER, [tool(description="Do more.")])
    assert ("t",) == pins.check(SERVER, [tool()])


def test_another_program_starts_without_pins():
    pins = Pins()
    pins.check(SERVER, [tool()])

    assert () == pins.check(
        McpServerConfig(name="s", transport=StdioTransport(command="b")), [tool(description="Do more.")]
    )


def test_pins_are_kept_in_the_file(tmp_path):
    file = tmp_path / "state" / "pins.json"
    Pins(file).check(SERVER, [tool()])

    assert ("t",) == Pins(file).check(SERVER, [tool(description="Do evil.")])
    assert [file] == list(file.parent.iterdir())


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', "\udcff"])
def test_an_unreadable_file_is_an_error(tmp_path, text):
    file = tmp_path / "pins.json"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(ConfigError, match="not a file of pinned tools"):
        Pins(file)


def test_an_unwritable_file_is_only_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    pins = Pins(tmp_path / "file" / "pins.json")

    assert () == pins.check(SERVER, [tool()])
    assert ("t",) == pins.check(SERVER, [tool(description="Do evil.")])
    assert "are not saved" in caplog.text


def test_another_processs_approval_takes_effect(tmp_path):
    here, there = Pins(tmp_path / "pins.json"), Pins(tmp_path / "pins.json")
    here.check(SERVER, [tool()])
    there.approve(SERVER, [tool(description="Do more.")])

    assert () == here.check(SERVER, [tool(description="Do more.")])


def test_another_processs_pins_are_not_overwritten(tmp_path):
    other = McpServerConfig(name="o", transport=StdioTransport(command="o"))
    here, there = Pins(tmp_path / "pins.json"), Pins(tmp_path / "pins.json")
    there.check(other, [tool()])
    here.check(SERVER, [tool()])

    assert ("t",) == Pins(tmp_path / "pins.json").check(other, [tool(description="Do evil.")])
    assert ("t",) == Pins(tmp_path / "pins.json").check(SERVER, [tool(description="Do evil.")])


def test_a_file_that_becomes_invalid_changes_nothing(tmp_path, caplog):
    pins = Pins(tmp_path / "pins.json")
    pins.check(SERVER, [tool()])
    (tmp_path / "pins.json").write_text("{")

    assert ("t",) == pins.check(SERVER, [tool(description="Do evil.")])
    assert "not a file of pinned tools" in caplog.text
