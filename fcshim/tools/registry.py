"""The available tools, by name.

Rule: a name belongs to one tool; iteration follows the order of registration, so that a prompt made from it is stable.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.messages import Tool, as_function
from fcshim.tools.base import AnyTool, is_named
from fcshim.tools.function import FunctionTool

INHERITED = ("list_skills", "read_skill", "slash_command", "mcp__*")
"""Names and patterns of the tools that a sub-agent gets besides those that its parent names."""


class Registry:
    """An ordered set of tools; functions are wrapped. Raises `ConfigError` for two tools with one name."""

    def __init__(self, tools: Iterable[AnyTool | Callable[..., JSON]] = ()) -> None:
        self._tools: dict[str, AnyTool] = {}
        self.register_all(tools)

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def register(self, tool: AnyTool | Callable[..., JSON]) -> AnyTool:
        """Add a tool, or a function as a tool; return the tool."""
        added = tool if isinstance(tool, AnyTool) else FunctionTool(tool)
        name = added.definition.name
        if name in self._tools:
            raise ConfigError(f"there are two tools named {name!r}")
        self._tools[name] = added
        return added

    def register_all(self, tools: Iterable[AnyTool | Callable[..., JSON]]) -> int:
        """Add tools; return how many."""
        return len([self.register(tool) for tool in tools])

    def unregister(self, name: str) -> bool:
        """Remove a tool; return whether it existed."""
        return self._tools.pop(name, None) is not None

    def replace_source(self, source: str, tools: Iterable[AnyTool], *, before: str = "") -> None:
        """Replace all tools whose source begins with `source` by these, at the place of the first one.

        Without one, they are added before the tools whose source begins with `before`, else at the end. Raises
        `ConfigError` for a name that another tool has.
        """
        kept = [tool for tool in self if not tool.traits.source.startswith(source)]
        old = [tool.traits.source.startswith(source) for tool in self]
        starts = [bool(before) and tool.traits.source.startswith(before) for tool in kept]
        at = old.index(True) if True in old else starts.index(True) if True in starts else len(kept)
        self._tools = {tool.definition.name: tool for tool in Registry([*kept[:at], *tools, *kept[at:]])}

    def get(self, name: str) -> AnyTool | None:
        """Return the tool with this name, or None."""
        return self._tools.get(name)

    def has(self, name: str) -> bool:
        """Return whether a tool has this name."""
        return name in self._tools

    def get_all(self) -> list[AnyTool]:
        """Return all tools."""
        return list(self._tools.values())

    def get_names(self) -> list[str]:
        """Return all names."""
        return list(self._tools)

    @property
    def definitions(self) -> tuple[Tool, ...]:
        """The definitions that the model gets."""
        return tuple(tool.definition for tool in self._tools.values())

    def get_definitions(self) -> list[dict[str, JSON]]:
        """Return the definitions in the format of OpenAI's API."""
        return [
            {"type": "function", "function": as_function(tool) | {"parameters": tool.parameters or {}}}
            for tool in self.definitions
        ]

    def create_filtered(self, allowed: Iterable[str]) -> "Registry":
        """Create a registry of the tools that are named: by names, patterns such as `mcp__*`, categories (`@web`)."""
        patterns = tuple(allowed)
        return Registry(tool for tool in self if any(is_named(tool, pattern) for pattern in patterns))

    def create_inherited(self, named: Iterable[str]) -> "Registry":
        """Create the registry of a sub-agent for which an agent names tools: these, and what every sub-agent gets."""
        return self.create_filtered((*named, *INHERITED))

    def unknown_tool_message(self, name: str) -> str:
        """Return the message for the model that a tool does not exist, with the names that do."""
        similar = difflib.get_close_matches(name, self._tools, n=1)
        hint = f" Did you mean {similar[0]}?" if similar else ""
        return f"There is no tool named {name}.{hint} Available: {', '.join(self._tools) or 'none'}."
