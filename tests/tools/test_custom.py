"""Custom tools from a folder. Requirement 33."""

import pytest

from fcshim.errors import ConfigError
from fcshim.tools import Registry
from fcshim.tools.base import tool_category
from fcshim.tools.custom import CustomTools
from tests.tools.builtin.tool_calls import result_text

TIME = '''
"""Times."""
from fcshim.tools import CallContext


def get_time(zone: str = "UTC") -> str:
    """The time in a zone."""
    return f"12:00 {zone}"


def whose(context: CallContext) -> str:
    """Tell whose call it is."""
    return context.call_id


def _helper():
    """Private."""


def undocumented():
    return 1
'''
LISTED = """
from fcshim.tools import FunctionTool, Traits
TOOLS = [FunctionTool(lambda: "x", name="listed", traits=Traits(sensitivity="safe"))]
"""


def names(custom):
    return [tool.definition.name for tool in custom.tools()]


async def test_functions_of_files_are_tools(tmp_path):
    (tmp_path / "time.py").write_text(TIME)
    (tmp_path / "listed.py").write_text(LISTED)
    (tmp_path / "_private.py").write_text("raise SystemExit")
    custom = CustomTools(tmp_path)

    assert custom.refresh()
    assert ["listed", "get_time", "whose"] == names(custom)
    assert "12:00 CET" == await result_text(custom.tools(), "get_time", zone="CET")
    assert "custom:time" == custom.tools()[1].traits.source
    assert not custom.refresh()


async def test_a_changed_file_is_reloaded(tmp_path):
    file = tmp_path / "a.py"
    file.write_text('def f() -> str:\n    """F."""\n    return "1"\n')
    custom = CustomTools(tmp_path)
    custom.refresh()
    file.write_text('def f() -> str:\n    """F."""\n    return "22"\n')

    assert custom.refresh()
    assert "22" == await result_text(custom.tools(), "f")
    file.unlink()
    assert custom.refresh()
    assert [] == names(custom)


async def test_a_file_that_does_not_load_keeps_its_old_tools(tmp_path):
    good, other = tmp_path / "a.py", tmp_path / "b.py"
    good.write_text('def f() -> str:\n    """F."""\n    return "1"\n')
    other.write_text("nonsense(")
    custom = CustomTools(tmp_path)
    custom.refresh()

    assert ["f"] == names(custom)
    assert "SyntaxError" in custom.errors["b.py"]
    good.write_text("raise ValueError('broken')")
    custom.refresh()

    assert ["f"] == names(custom)
    assert "ValueError: broken" == custom.errors["a.py"]


def test_custom_tools_are_a_source_in_a_registry(tmp_path):
    (tmp_path / "time.py").write_text(TIME)
    custom = CustomTools(tmp_path)
    custom.refresh()
    registry = Registry()
    registry.replace_source("custom:", custom.tools())
    registry.replace_source("custom:", custom.tools())

    assert ["get_time", "whose"] == registry.get_names()


def test_a_folder_is_needed(tmp_path):
    with pytest.raises(ConfigError, match="not a folder"):
        CustomTools(tmp_path / "nothing")


def test_a_file_names_the_category_of_its_tools(tmp_path):
    """Requirement 33."""
    (tmp_path / "a.py").write_text(TIME + 'CATEGORY = "media"\n')
    (tmp_path / "b.py").write_text(TIME)
    custom = CustomTools(tmp_path)
    custom.refresh()

    assert {"a": "media", "b": "custom"} == {
        tool.traits.source.removeprefix("custom:"): tool_category(tool) for tool in custom.tools()
    }
