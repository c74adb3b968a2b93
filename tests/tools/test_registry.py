"""The registry of tools. Requirements 34, 36 and 38."""

import pytest

from fcshim.errors import ConfigError
from fcshim.tools import FunctionTool, Registry, Traits


def read(path: str) -> str:
    """Read."""
    return path


def tool(name, **traits):
    return FunctionTool(read, name=name, traits=Traits(**traits))


def test_tools_are_added_and_removed_by_name():
    registry = Registry()

    assert 2 == registry.register_all([read, tool("write")])
    assert registry.has("read")
    assert registry.get("read") is registry.get_all()[0]
    assert ["read", "write"] == registry.get_names()
    assert registry.unregister("read")
    assert not registry.unregister("read")
    assert registry.get("read") is None
    assert 1 == len(registry)


def test_a_name_belongs_to_one_tool():
    registry = Registry([read])
    with pytest.raises(ConfigError, match="two tools named 'read'"):
        registry.register(tool("read"))


def test_definitions_have_the_format_of_openai():
    (definition,) = Registry([read]).get_definitions()

    assert "function" == definition["type"]
    assert ("read", "Read.") == (definition["function"]["name"], definition["function"]["description"])
    assert ["path"] == definition["function"]["parameters"]["required"]


def test_a_filtered_registry_has_the_allowed_tools_only():
    registry = Registry([tool("Read"), tool("Write"), tool("mcp__a__b")])
    filtered = registry.create_filtered(["Read", "mcp__*", "Nothing"])

    assert ["Read", "mcp__a__b"] == filtered.get_names()
    assert ["Read", "Write", "mcp__a__b"] == registry.get_names()


def test_a_sub_agent_inherits_named_tools_and_those_of_servers():
    registry = Registry([tool("Read"), tool("Write"), tool("list_skills"), tool("mcp__a__b")])

    assert ["Read", "list_skills", "mcp__a__b"] == registry.create_inherited(["Read"]).get_names()


def test_a_source_is_replaced_as_a_whole():
    registry = Registry([tool("Read"), tool("a", source="mcp:x"), tool("b", source="mcp:x")])
    registry.replace_source("mcp:", [tool("b", source="mcp:x"), tool("c", source="mcp:y")])

    assert ["Read", "b", "c"] == registry.get_names()


def test_the_message_for_an_unknown_tool_lists_the_known_ones():
    """Requirement 35."""
    assert "There is no tool named raed. Did you mean read? Available: read." == Registry([read]).unknown_tool_message(
        "raed"
    )
    assert "There is no tool named x. Available: none." == Registry().unknown_tool_message("x")


@pytest.mark.parametrize(
    ("source", "before", "names"),
    [
        ("mcp:", "", ["Read", "new", "mine", "spawn"]),
        ("custom:", "mcp:", ["Read", "a", "new", "spawn"]),
        ("other:", "mcp:", ["Read", "new", "a", "mine", "spawn"]),
        ("other:", "nothing:", ["Read", "a", "mine", "spawn", "new"]),
        ("other:", "", ["Read", "a", "mine", "spawn", "new"]),
    ],
)
def test_a_source_is_replaced_at_its_place(source, before, names):
    """Requirement 28."""
    registry = Registry(
        [tool("Read"), tool("a", source="mcp:x"), tool("mine", source="custom:x"), tool("spawn", source="builtin:x")]
    )
    registry.replace_source(source, [tool("new", source=f"{source}x")], before=before)

    assert names == registry.get_names()
