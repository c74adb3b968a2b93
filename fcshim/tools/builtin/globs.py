"""Glob patterns for paths: `*.py`, `src/**/test_*.py`, `*.{ts,tsx}`.

Rule: a pattern without a slash matches names at any depth; `**` matches any number of folders. The work is bounded.
"""

import fnmatch
from functools import lru_cache

from fcshim.errors import ToolError

_MAX_PATTERNS = 64
"""Patterns that one pattern's braces may expand to: their numbers multiply."""


class GlobPattern:
    """One pattern, with its braces expanded. Raises `ToolError` if they expand to too many patterns."""

    def __init__(self, pattern: str) -> None:
        self._patterns = [tuple(each.split("/")) for each in _expand_braces(pattern.lstrip("/").removeprefix("./"))]

    def matches(self, path: str) -> bool:
        """Return whether a path, relative to the searched folder, matches."""
        parts = tuple(path.split("/"))
        return any(_matches(pattern if len(pattern) > 1 else ("**", *pattern), parts) for pattern in self._patterns)


def _expand_braces(pattern: str) -> list[str]:
    pending, done = [pattern], []
    while pending:
        text = pending.pop()
        closed = text.find("}", text.find("{") + 1)
        opened = text.rfind("{", 0, max(closed, 0))
        if opened < 0 or closed < 0:
            done.append(text)
        else:
            pending += [text[:opened] + each + text[closed + 1 :] for each in text[opened + 1 : closed].split(",")]
        if len(pending) + len(done) > _MAX_PATTERNS:
            raise ToolError(f"The pattern stands for more than {_MAX_PATTERNS} patterns.")
    return done


def _matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Match part by part over the set of reachable positions; backtracking is exponential in the number of `**`."""
    reachable = {0}
    for part in pattern:
        if part == "**":
            reachable = set(range(min(reachable, default=len(path) + 1), len(path) + 1))
        else:
            reachable = {at + 1 for at in reachable if at < len(path) and _name_matches(path[at], part)}
    return len(path) in reachable


@lru_cache(maxsize=4_096)
def _name_matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern)
