"""The tools Glob and Grep: find files by name and by content.

Rule: files that version control ignores are not searched; a content search has a time limit, whatever its pattern. A
regular expression is compiled in the worker process only: some take seconds, in which this process would answer nobody.
"""

import asyncio
import fnmatch
import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from fcshim.errors import ToolError
from fcshim.tools.base import NO_CONTEXT, CallContext, Traits
from fcshim.tools.builtin import grep_worker
from fcshim.tools.builtin.command import run_command
from fcshim.tools.builtin.walk import files_under
from fcshim.tools.builtin.workspace import Workspace
from fcshim.tools.function import FunctionTool

_MAX_PATHS = 1_000
_MAX_MATCHES = 250
_SECONDS = 20.0
MAX_EXPRESSION = 1_000
"""Characters of a regular expression: long ones list words, which several searches find as well."""

SearchFolder = Annotated[str, "folder to search, from the workspace"]


class Search:
    """The tools that find files in a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def tools(self) -> list[FunctionTool]:
        """Return the tools."""
        traits = Traits(
            sensitivity="safe",
            reads_only=True,
            subject="path",
            subject_kind="path",
            root=self._workspace.root,
            ruled_as=("Read",),
            source="builtin:search",
        )
        return [
            FunctionTool(self.glob, name="Glob", traits=traits),
            FunctionTool(self.grep, name="Grep", traits=traits),
        ]

    def glob(
        self,
        pattern: Annotated[str, "such as *.py or src/**/*.{ts,tsx}"],
        path: SearchFolder = ".",
        context: CallContext = NO_CONTEXT,
    ) -> str:
        """Find files by their names."""
        found = self._find_files(pattern, path, context)
        lines = [self._workspace.display_path(file) for file in found[:_MAX_PATHS]]
        if len(found) > _MAX_PATHS:
            lines.append(f"({len(found) - _MAX_PATHS} more)")
        return "\n".join(lines) or f"No file matches {pattern}."

    async def grep(
        self,
        pattern: Annotated[str, "a regular expression, as Python reads them"],
        path: Annotated[str, "file or folder to search, from the workspace"] = ".",
        include: Annotated[str | None, "only files with such names, like *.py"] = None,
        context: CallContext = NO_CONTEXT,
    ) -> str:
        """Search the contents of files; gives path, line number and line."""
        if len(pattern) > MAX_EXPRESSION:
            raise ToolError(
                f"pattern has {len(pattern)} characters: expected a regular expression of at most {MAX_EXPRESSION}."
            )
        files = await asyncio.to_thread(self._files_to_search, path, include, context)
        matches, finished = await self._run_grep(pattern, files)
        lines = [f"{self._workspace.display_path(Path(file))}:{number}: {line}" for file, number, line in matches]
        if len(matches) >= _MAX_MATCHES:
            lines.append(f"(the first {_MAX_MATCHES} matches)")
        if not finished:
            lines.append(f"(stopped after {_SECONDS:g} seconds)")
        return "\n".join(lines) or f"Nothing matches {pattern} in {len(files)} files."

    def _find_files(self, pattern: str, path: str, context: CallContext) -> list[Path]:
        folder, glob_pattern = self._workspace.existing_folder(path), GlobPattern(pattern)
        found = files_under(folder, self._workspace.root)
        matching = (file for file in found if glob_pattern.matches(file.relative_to(folder).as_posix()))
        return [file for file in matching if context.may_open(file)]

    def _files_to_search(self, path: str, include: str | None, context: CallContext) -> list[str]:
        target = self._workspace.resolve(path)
        if target.is_file():
            return [str(target)]
        return [str(file) for file in self._find_files(include or "*", path, context)]

    async def _run_grep(self, pattern: str, files: list[str]) -> tuple[list[tuple[str, int, str]], bool]:
        request = json.dumps({"pattern": pattern, "files": files, "max_matches": _MAX_MATCHES})
        result = await run_command(
            [sys.executable, "-I", "-S", str(Path(grep_worker.__file__))],
            cwd=self._workspace.root,
            stdin=request.encode(),
            seconds=_SECONDS,
            max_output=_MAX_MATCHES * 4_096,
        )
        lines = [json.loads(line) for line in result.output[: result.output.rfind(b"\n") + 1].splitlines()]
        if lines and isinstance(lines[0], dict):
            raise ToolError(f"The pattern is not a regular expression: {lines[0]['error']}")
        return [tuple(line) for line in lines], result.code is not None


_MAX_PATTERNS = 64
"""Patterns that one pattern's braces may expand to: their numbers multiply."""
MAX_PATTERN = 500
"""Characters of a pattern: the name of a file has at most 255."""
_MAX_EXPANDED = 4_000
"""Characters of all patterns: each becomes a regular expression, and a wide set of characters takes 3 ms to compile."""


class GlobPattern:
    """A glob pattern for paths: `*.py`, `src/**/test_*.py`, `*.{ts,tsx}`. Raises `ToolError` for one beyond the limits.

    A pattern without a slash matches names at any depth; `**` matches any number of folders.
    """

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
