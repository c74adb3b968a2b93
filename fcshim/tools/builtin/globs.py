"""Glob patterns for paths: `*.py`, `src/**/test_*.py`, `*.{ts,tsx}`.

Rule: a pattern without a slash matches names at any depth; `**` matches any number of folders. The work is bounded.
"""

import fnmatch
from functools import lru_cache

from fcshim.errors import ToolError

_MAX_PATTERNS = 64
"""Patterns that one pattern's braces may expand to: their numbers multiply."""
MAX_PATTERN = 500
"""Characters of a pattern: the name of a file has at most 255."""
_MAX_EXPANDED = 4_000
"""Characters of all patterns: each becomes a regular expression, and a wide set of characters takes 3 ms to compile."""


class GlobPattern:
    """One pattern, with its braces expanded. Raises `ToolError` for a pattern beyond the limits."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN:
            raise ToolError(f"The pattern has {len(pattern)} characters: expected at most {MAX_PATTERN}, like *.py.")
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
            raise ToolError(f"The pattern stands for more than {_MAX_PATTERNS} patterns: expected fewer in braces.")
    if sum(map(len, done)) > _MAX_EXPANDED:
        raise ToolError(f"The pattern stands for more than {_MAX_EXPANDED} characters: expected fewer in braces.")
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
