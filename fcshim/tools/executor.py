"""Calls to results: the calls of one reply, executed.

Rule: every call gets a result, in the order of the calls; what went wrong with a call is told, never executed.
Neighbours: `agent` asks for it after each reply; the tools do the work.
"""

import asyncio
import difflib
import json
from collections.abc import Callable, Iterable, Sequence

from fcshim.errors import ConfigError
from fcshim.events import JSON, CallError, ToolCallEnd
from fcshim.messages import Tool, ToolMessage
from fcshim.tools.function import FunctionTool
from fcshim.tools.result import ToolResult, failed

DEFAULT_MAX_PARALLEL = 8
"""Calls that run at once: a model that asks for fifty must not open fifty files."""
DEFAULT_TIMEOUT = 120.0
"""Seconds for one call: what the hosts in use give their tools."""


class Executor:
    """Some tools, ready to be called.

    Plain functions are wrapped. `timeout` is in seconds per call, `None` for none. Raises `ConfigError` for a function
    that a model cannot call, and for two tools of one name.
    """

    def __init__(
        self,
        tools: Iterable[FunctionTool | Callable[..., JSON]],
        *,
        max_parallel: int = DEFAULT_MAX_PARALLEL,
        timeout: float | None = DEFAULT_TIMEOUT,
    ) -> None:
        if max_parallel < 1:
            raise ConfigError("max_parallel must be at least 1")
        self._tools: dict[str, FunctionTool] = {}
        for tool in tools:
            self._add(tool if isinstance(tool, FunctionTool) else FunctionTool(tool))
        self._slots = asyncio.Semaphore(max_parallel)
        self._timeout = timeout

    @property
    def definitions(self) -> tuple[Tool, ...]:
        """What the model is told of the tools, in their order."""
        return tuple(tool.definition for tool in self._tools.values())

    async def execute(self, calls: Sequence[ToolCallEnd]) -> list[ToolMessage]:
        """Run the calls side by side; give their results in the order of the calls."""
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._execute(call)) for call in calls]
        return [task.result() for task in running]

    def _add(self, tool: FunctionTool) -> None:
        if tool.definition.name in self._tools:
            raise ConfigError(f"there are two tools named {tool.definition.name!r}")
        self._tools[tool.definition.name] = tool

    async def _execute(self, call: ToolCallEnd) -> ToolMessage:
        async with self._slots:
            result = await self._result_of(call)
        return ToolMessage(call.tool_call_id, result.content, call.tool_call_name, result.is_error)

    async def _result_of(self, call: ToolCallEnd) -> ToolResult:
        if call.error is not None:
            return failed(_unreadable(call.error))
        tool = self._tools.get(call.tool_call_name)
        if tool is None:
            return failed(self._unknown(call.tool_call_name))
        arguments = _decoded(call.tool_call_arguments_complete)
        if arguments is None:
            return failed("The arguments are not a JSON object.")
        try:
            async with asyncio.timeout(self._timeout):
                return await tool.call(arguments)
        except TimeoutError:
            return failed(f"{call.tool_call_name} gave no result within {self._timeout:g} seconds.")

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._tools, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"There is no tool named {name}.{hint} Available: {', '.join(self._tools) or 'none'}."


def _decoded(text: str) -> dict[str, JSON] | None:
    """Read arguments that a native provider may not have checked."""
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def _unreadable(error: CallError) -> str:
    return f"The call was not executed ({error.kind}): {error.message}\nIt was written so: {error.raw}"
