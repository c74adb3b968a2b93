"""The tools that are at hand, by name.

Rule: a name belongs to one tool; the order is that of registration, so that a prompt made of it stays the same.
Neighbours: `executor` calls what is registered, `mcp` brings its tools as one source that comes and goes.
"""

import difflib
import fnmatch
from collections.abc import Callable, Iterable, Iterator

import msgspec

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.tools.base import AnyTool
from fcshim.tools.function import FunctionTool

INHERITED = ("list_skills", "read_skill", "slash_command", "mcp__*")
"""What a sub-agent gets without being given it."""


class Registry:
    """Some tools. Functions are wrapped. Raises `ConfigError` for two tools of one name."""

    def __init__(self, tools: Iterable[AnyTool | Callable[..., JSON]] = ()) -> None:
        self._tools: dict[str, AnyTool] = {}
        self.register_all(tools)

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def register(self, tool: AnyTool | Callable[..., JSON]) -> AnyTool:
        """Add one tool, or a function as one; give what was added."""
        made = tool if isinstance(tool, AnyTool) else FunctionTool(tool)
        name = made.definition.name
        if name in self._tools:
            raise ConfigError(f"there are two tools named {name!r}")
        self._tools[name] = made
        return made

    def register_all(self, tools: Iterable[AnyTool | Callable[..., JSON]]) -> int:
        """Add tools; give how many."""
        return len([self.register(tool) for tool in tools])

    def unregister(self, name: str) -> bool:
        """Take a tool away; tell whether it was there."""
        return self._tools.pop(name, None) is not None

    def replace_source(self, source: str, tools: Iterable[AnyTool]) -> None:
        """Put these tools in the place of all whose source begins with `source`; others keep theirs."""
        for name in [name for name, tool in self._tools.items() if tool.traits.source.startswith(source)]:
            del self._tools[name]
        self.register_all(tools)

    def get(self, name: str) -> AnyTool | None:
        """Give the tool of this name, if there is one."""
        return self._tools.get(name)

    def has(self, name: str) -> bool:
        """Tell whether there is a tool of this name."""
        return name in self._tools

    def get_all(self) -> list[AnyTool]:
        """Give all tools."""
        return list(self._tools.values())

    def get_names(self) -> list[str]:
        """Give all names."""
        return list(self._tools)

    @property
    def definitions(self) -> tuple[Tool, ...]:
        """What the model is told of the tools."""
        return tuple(tool.definition for tool in self._tools.values())

    def get_definitions(self) -> list[dict[str, JSON]]:
        """Give the definitions as OpenAI's API takes them."""
        return [
            {"type": "function", "function": msgspec.to_builtins(tool) | {"parameters": tool.parameters or {}}}
            for tool in self.definitions
        ]

    def create_filtered(self, allowed: Iterable[str]) -> "Registry":
        """Make a registry with the allowed tools only: names, or patterns such as `mcp__*`."""
        patterns = tuple(allowed)
        return Registry(
            tool
            for name, tool in self._tools.items()
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        )

    def create_read_only(self) -> "Registry":
        """Make a registry of the tools that change nothing, for planning."""
        return Registry(tool for tool in self if tool.traits.sensitivity == "safe" or tool.traits.reads_only)

    def create_inherited(self, named: Iterable[str] = ()) -> "Registry":
        """Make the registry of a sub-agent: what it is given by name, and what all sub-agents get."""
        return self.create_filtered((*named, *INHERITED))

    def unknown_tool_message(self, name: str) -> str:
        """Tell the model that there is no such tool, and what there is."""
        near = difflib.get_close_matches(name, self._tools, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"There is no tool named {name}.{hint} Available: {', '.join(self._tools) or 'none'}."
