"""The tools Glob and Grep: find files by name and by content.

Rule: a listing is sorted, without the files that `.gitignore` files exclude, without version control folders; symbolic
links are skipped. The ignore files are untrusted: the work for them is bounded, and rules over a limit are ignored. A
content search has a time limit, whatever its pattern. A regular expression is compiled in the worker process only: some
take seconds, in which this process would answer nobody.
"""

import asyncio
import fnmatch
import importlib.util
import itertools
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import pathspec

from fcshim.errors import ToolError
from fcshim.tools.base import NO_CONTEXT, CallContext, Traits
from fcshim.tools.builtin import grep_worker
from fcshim.tools.builtin.command import run_command
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


_name_matches = lru_cache(maxsize=4_096)(fnmatch.fnmatchcase)


def _matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Match part by part over the set of reachable positions; backtracking is exponential in the number of `**`."""
    reachable = {0}
    for part in pattern:
        if part == "**":
            reachable = set(range(min(reachable, default=len(path) + 1), len(path) + 1))
        else:
            reachable = {at + 1 for at in reachable if at < len(path) and _name_matches(path[at], part)}
    return len(path) in reachable


_VCS_FOLDERS = frozenset({".git", ".hg", ".svn"})
MAX_FILES = 200_000
"""Files in one listing: a home folder has more, and a search there would take minutes."""
MAX_SECONDS = 20.0
"""Seconds of one listing, as a search may take."""
MAX_IGNORE_FILE = 64 * 1024
"""Bytes of a `.gitignore` file that are read."""
MAX_IGNORE_PATTERNS = 500
"""Patterns of a `.gitignore` file."""
MAX_IGNORE_PATTERN = 200
"""Characters of a pattern."""
MAX_WILDCARDS = 2
"""Wildcards in a segment where only `re` matches: ten of them and 30 characters take 50 s, with the GIL held."""
_LINEAR_BACKEND = "re2"
_WILDCARD_RUN = re.compile(r"\*+")


def files_under(folder: Path, root: Path) -> Iterator[Path]:
    """Yield the files, by the ignore rules of all folders from `root` down, up to the limits."""
    parents = [parent for parent in reversed(folder.parents) if parent.is_relative_to(root)]
    rules = [each for parent in parents for each in _read_rules(parent)]
    deadline = time.monotonic() + MAX_SECONDS
    left = MAX_FILES
    for file in _walk(folder, rules):
        yield file
        left -= 1
        if not left or time.monotonic() > deadline:
            return


_FolderRules = tuple[Path, pathspec.GitIgnoreSpec]


def _walk(folder: Path, rules: list[_FolderRules]) -> Iterator[Path]:
    try:
        with os.scandir(folder) as listed:  # a folder with millions of entries takes gigabytes
            entries = sorted(itertools.islice(listed, MAX_FILES), key=lambda entry: entry.name)
    except OSError:
        return
    rules = [*rules, *_read_rules(folder)]
    for entry in entries:
        path = folder / entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in _VCS_FOLDERS or _is_ignored(path, rules, is_folder=is_folder):
            continue
        if is_folder:
            yield from _walk(path, rules)
        elif entry.is_file(follow_symlinks=False):
            yield path


def _read_rules(folder: Path) -> list[_FolderRules]:
    try:
        with (folder / ".gitignore").open("rb") as file:
            lines = file.read(MAX_IGNORE_FILE).decode(errors="replace").splitlines()
    except OSError:
        return []
    spec = _compile_rules([line for line in lines[:MAX_IGNORE_PATTERNS] if len(line) <= MAX_IGNORE_PATTERN])
    return [] if spec is None else [(folder, spec)]


def _compile_rules(lines: list[str]) -> pathspec.GitIgnoreSpec | None:
    """Compile patterns for a linear matcher; without one, those that backtracking matches fast."""
    if importlib.util.find_spec("re2") is not None:
        try:
            return pathspec.GitIgnoreSpec.from_lines(lines, backend=_LINEAR_BACKEND)
        except Exception:  # noqa: BLE001, S110 - re2's own error, whose class the optional library has
            pass  # their automaton is too large
    try:
        return pathspec.GitIgnoreSpec.from_lines(_few_wildcards(lines), backend="simple")
    except ValueError:
        return None


def _few_wildcards(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        segments = _WILDCARD_RUN.sub(lambda run: run[0][:2], line).split("/")
        if segments.count("**") <= MAX_WILDCARDS and all(
            each == "**" or each.count("*") <= MAX_WILDCARDS for each in segments
        ):
            yield line


def _is_ignored(path: Path, rules: list[_FolderRules], *, is_folder: bool) -> bool:
    end = "/" if is_folder else ""
    for folder, spec in rules:
        # re2 refuses the bytes of a name that is not UTF-8.
        name = path.relative_to(folder).as_posix().encode(errors="replace").decode()
        if spec.match_file(name + end):
            return True
    return False
