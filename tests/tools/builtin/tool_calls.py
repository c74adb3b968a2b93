"""Calls a tool as the executor does, by its name."""

from collections.abc import Iterable

from fcshim.tools import AnyTool, ToolResult


async def call(tools: Iterable[AnyTool], name: str, /, **arguments) -> ToolResult:
    """Call the tool with this name."""
    (tool,) = [each for each in tools if each.definition.name == name]
    return await tool.call(arguments)


async def result_text(tools: Iterable[AnyTool], name: str, /, **arguments) -> str:
    """Call a tool that must succeed; return its text."""
    result = await call(tools, name, **arguments)
    assert not result.is_error, result.text
    return result.text


async def error_text(tools: Iterable[AnyTool], name: str, /, **arguments) -> str:
    """Call a tool that must fail; return its text."""
    result = await call(tools, name, **arguments)
    assert result.is_error, result.text
    return result.text
