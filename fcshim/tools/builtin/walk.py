"""Lists the files under a folder.

Rule: sorted; without the files that `.gitignore` files exclude, without version control folders; symbolic links are
skipped. The ignore files are untrusted: the work for them is bounded, and rules over a limit are ignored.
"""

import importlib.util
import itertools
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pathspec

_VCS_FOLDERS = frozenset({".git", ".hg", ".svn"})
MAX_FILES = 200_000
"""Files in one listing: a home folder has more, and a search there would take minutes."""
MAX_SECONDS = 20.0
"""Seconds of one listing, as a search may take."""
MAX_IGNORE_FILE = 64 * 1024
"""Bytes of a `.gitignore` file that are read."""
MAX_PATTERNS = 500
"""Patterns of a `.gitignore` file."""
MAX_PATTERN = 200
"""Characters of a pattern."""
MAX_WILDCARDS = 2
"""Wildcards in a segment where only `re` matches: ten of them and 30 characters take 50 s, with the GIL held."""
_LINEAR_BACKEND = "re2"
_WILDCARD_RUN = re.compile(r"\*+")


def files_under(folder: Path, root: Path) -> Iterator[Path]:
    """Yield the files, by the ignore rules of all folders from `root` down, up to the limits."""
    rules = [each for parent in _parent_folders(folder, root) for each in _read_rules(parent)]
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
    spec = _compile_rules([line for line in lines[:MAX_PATTERNS] if len(line) <= MAX_PATTERN])
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
    return any(spec.match_file(_unicode(path.relative_to(folder).as_posix()) + end) for folder, spec in rules)


def _unicode(name: str) -> str:
    """Replace the bytes of a name that is not UTF-8, which re2 refuses."""
    return name.encode(errors="replace").decode()


def _parent_folders(folder: Path, root: Path) -> list[Path]:
    """Return the folders between the root and this one, from the root down; their ignore rules apply here too."""
    return [parent for parent in reversed(folder.parents) if parent.is_relative_to(root)]
