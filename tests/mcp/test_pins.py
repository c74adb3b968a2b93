"""What each tool was when it was first seen."""

import pytest
from mcp.types import Tool

from fcshim.errors import ConfigError
from fcshim.mcp import McpServerConfig, Pins, StdioTransport

SERVER = McpServerConfig(name="s", transport=StdioTransport(command="a"))


def tool(name="t", description="Do.", **properties):
    return Tool(name=name, description=description, input_schema={"type": "object", "properties": properties})


def test_a_tool_is_taken_as_it_first_comes():
    pins = Pins()

    assert () == pins.check(SERVER, [tool()])
    assert () == pins.check(SERVER, [tool()])


@pytest.mark.parametrize("other", [tool(description="Do evil."), tool(key={"type": "string"})])
def test_a_tool_that_says_something_else_is_told(other):
    pins = Pins()
    pins.check(SERVER, [tool()])

    assert ("t",) == pins.check(SERVER, [other])
    assert ("t",) == pins.check(SERVER, [other])


def test_a_tool_that_goes_away_and_returns_changed_is_told():
    pins = Pins()
    pins.check(SERVER, [tool()])

    assert () == pins.check(SERVER, [])
    assert ("t",) == pins.check(SERVER, [tool(description="Do evil.")])


def test_a_new_tool_is_taken_but_not_beside_a_changed_one():
    pins = Pins()
    pins.check(SERVER, [tool()])

    assert () == pins.check(SERVER, [tool(), tool("new")])
    assert ("t",) == pins.check(SERVER, [tool(description="Do evil."), tool("newer")])
    assert ("t",) == pins.check(SERVER, [tool(description="Do evil."), tool("newer", "Help it.")])


def test_approval_takes_the_tools_as_they_are():
    pins = Pins()
    pins.check(SERVER, [tool()])
    pins.approve(SERVER, [tool(description="Do more.")])

    assert () == pins.check(SERVER, [tool(description="Do more.")])
    assert ("t",) == pins.check(SERVER, [tool()])


def test_another_program_begins_anew():
    pins = Pins()
    pins.check(SERVER, [tool()])

    assert () == pins.check(
        McpServerConfig(name="s", transport=StdioTransport(command="b")), [tool(description="Do more.")]
    )


def test_a_file_remembers(tmp_path):
    file = tmp_path / "state" / "pins.json"
    Pins(file).check(SERVER, [tool()])

    assert ("t",) == Pins(file).check(SERVER, [tool(description="Do evil.")])
    assert [file] == list(file.parent.iterdir())


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', "\udcff"])
def test_a_file_that_cannot_be_read_is_no_reason_to_forget(tmp_path, text):
    file = tmp_path / "pins.json"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(ConfigError, match="not a file of pinned tools"):
        Pins(file)


def test_a_file_that_cannot_be_written_is_no_reason_to_fail(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    pins = Pins(tmp_path / "file" / "pins.json")

    assert () == pins.check(SERVER, [tool()])
    assert ("t",) == pins.check(SERVER, [tool(description="Do evil.")])
    assert "are not remembered" in caplog.text


def test_what_another_program_approves_counts_here(tmp_path):
    here, there = Pins(tmp_path / "pins.json"), Pins(tmp_path / "pins.json")
    here.check(SERVER, [tool()])
    there.approve(SERVER, [tool(description="Do more.")])

    assert () == here.check(SERVER, [tool(description="Do more.")])


def test_what_another_program_wrote_is_not_overwritten(tmp_path):
    other = McpServerConfig(name="o", transport=StdioTransport(command="o"))
    here, there = Pins(tmp_path / "pins.json"), Pins(tmp_path / "pins.json")
    there.check(other, [tool()])
    here.check(SERVER, [tool()])

    assert ("t",) == Pins(tmp_path / "pins.json").check(other, [tool(description="Do evil.")])
    assert ("t",) == Pins(tmp_path / "pins.json").check(SERVER, [tool(description="Do evil.")])


def test_a_file_that_was_spoilt_meanwhile_changes_nothing(tmp_path, caplog):
    pins = Pins(tmp_path / "pins.json")
    pins.check(SERVER, [tool()])
    (tmp_path / "pins.json").write_text("{")

    assert ("t",) == pins.check(SERVER, [tool(description="Do evil.")])
    assert "not a file of pinned tools" in caplog.text
