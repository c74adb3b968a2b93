"""Lists the files under a folder.

Rule: sorted; without the files that `.gitignore` files exclude, without version control folders; symbolic links are
skipped.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pathspec

_VCS_FOLDERS = frozenset({".git", ".hg", ".svn"})
MAX_FILES = 200_000
"""Files in one listing: a home folder has more, and a search there would take minutes."""


def files_under(folder: Path, root: Path) -> Iterator[Path]:
    """Yield the files, by the ignore rules of all folders from `root` down."""
    rules = [each for parent in _parent_folders(folder, root) for each in _read_rules(parent)]
    left = MAX_FILES
    for file in _walk(folder, rules):
        yield file
        left -= 1
        if not left:
            return


_FolderRules = tuple[Path, pathspec.GitIgnoreSpec]


def _walk(folder: Path, rules: list[_FolderRules]) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
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
        lines = (folder / ".gitignore").read_text(encoding="utf-8", errors="replace").splitlines()
        return [(folder, pathspec.GitIgnoreSpec.from_lines(lines))]
    except (OSError, ValueError):
        return []


def _is_ignored(path: Path, rules: list[_FolderRules], *, is_folder: bool) -> bool:
    return any(
        spec.match_file(path.relative_to(folder).as_posix() + ("/" if is_folder else "")) for folder, spec in rules
    )


def _parent_folders(folder: Path, root: Path) -> list[Path]:
    """Return the folders between the root and this one, from the root down; their ignore rules apply here too."""
    return [parent for parent in reversed(folder.parents) if parent.is_relative_to(root)]
