"""A cache of the results of tools that only read, for as long as the operator configures.

Rule: off by default; a failure is never cached; the oldest result is evicted when the cache is full.
"""

import json
from collections.abc import Callable, Mapping

from fcshim.events import JSON
from fcshim.tools.result import ToolResult

_MAX_ENTRIES = 256
"""Results cached per server; each may hold 16 MB in the worst case, usually some KB."""


class ResultCache:
    """The results of one server's tools, by tool and arguments; `lifetime` is in seconds, 0 disables the cache."""

    def __init__(self, lifetime: float, clock: Callable[[], float]) -> None:
        self._lifetime = lifetime
        self._clock = clock
        self._entries: dict[str, tuple[float, ToolResult]] = {}

    def get(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult | None:
        """Return the result of the same call, unless it has expired."""
        until, result = self._entries.get(_key(tool, arguments), (0.0, None))
        return result if self._clock() < until else None

    def put(self, tool: str, arguments: Mapping[str, JSON], result: ToolResult) -> None:
        """Cache a result."""
        if self._lifetime <= 0 or result.is_error:
            return
        key = _key(tool, arguments)
        self._entries.pop(key, None)
        self._entries[key] = (self._clock() + self._lifetime, result)
        if len(self._entries) > _MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]


def _key(tool: str, arguments: Mapping[str, JSON]) -> str:
    return json.dumps([tool, dict(arguments)], sort_keys=True)
