"""Records what the calls of each turn change in files, so that `/undo` can restore it.

Rule: only files that a tool wrote are restored, and only if they have not changed since. Changes by commands and
servers are not recorded. The former contents have a limit; the oldest are forgotten first.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from fcshim.errors import ToolError
from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.tools import AnyTool, ToolResult, Traits
from fcshim.tools.base import NO_CONTEXT, CallContext
from fcshim.tools.builtin import Workspace
from fcshim.tools.builtin.files import FILE_LIMIT

_MAX_KEPT = 32 * 2**20
"""Bytes of former contents: a few files of the size that the tools can edit."""


class FileEdit(msgspec.Struct, frozen=True):
    """One file that a turn changed. `before` None: the file is new; `after` None: its former content is forgotten."""

    path: Path
    before: bytes | None
    after: bytes | None
    name: str = ""
    """The path as the model writes it."""

    def __str__(self) -> str:
        return self.name or str(self.path)


class EditJournal:
    """The files that were changed since each turn began."""

    def __init__(self, max_kept: int = _MAX_KEPT) -> None:
        self._max_kept = max_kept
        self._turns: list[dict[Path, FileEdit]] = []

    def begin_turn(self) -> None:
        """Begin a turn."""
        self._turns.append({})

    def drop_turn(self) -> list[FileEdit]:
        """Forget the last turn; return what it changed."""
        return list(self._turns.pop().values()) if self._turns else []

    @property
    def has_edits(self) -> bool:
        """Whether the current turn has changed a file."""
        return bool(self._turns and self._turns[-1])

    def keep_turns(self, count: int) -> None:
        """Forget the edits of all but the last turns; the earlier turns were summed up into one."""
        self._turns = [{}, *self._turns[len(self._turns) - min(count, len(self._turns)) :]]

    def add(self, path: Path, before: bytes | None, after: bytes, name: str = "") -> None:
        """Record a change of the current turn; several of one file are one."""
        if not self._turns:
            self.begin_turn()
        edits = self._turns[-1]
        first = edits[path].before if path in edits else before
        was_forgotten = path in edits and edits[path].after is None
        edits[path] = FileEdit(path, first, None if was_forgotten else after, name)
        self._forget()

    def _forget(self) -> None:
        kept = sum(_size(edit) for edits in self._turns for edit in edits.values())
        for edits in self._turns:
            for path, edit in edits.items():
                if kept <= self._max_kept:
                    return
                kept -= _size(edit)
                edits[path] = FileEdit(edit.path, None, None, edit.name)


def _size(edit: FileEdit) -> int:
    return 0 if edit.after is None else len(edit.after) + len(edit.before or b"")


def restore(edits: Iterable[FileEdit]) -> list[str]:
    """Restore the files; return a line for each. Files that were changed since are kept."""
    return [_restore(edit) for edit in edits]


def _restore(edit: FileEdit) -> str:
    try:
        if edit.after is None:
            return f"{edit} stays: its former content was too large to keep"
        if _read(edit.path) != edit.after:
            return f"{edit} stays: it was changed since"
        if edit.before is None:
            edit.path.unlink()
            return f"{edit} is removed again"
        edit.path.write_bytes(edit.before)
    except OSError as error:
        return f"{edit} stays: {error.strerror}"
    return f"{edit} is as it was"


class RecordedTool:
    """A tool that changes one file, and records the change in the journal."""

    def __init__(self, tool: AnyTool, workspace: Workspace, journal: EditJournal) -> None:
        self._tool = tool
        self._workspace = workspace
        self._journal = journal

    @property
    def definition(self) -> Tool:
        """The tool's own definition."""
        return self._tool.definition

    @property
    def traits(self) -> Traits:
        """The tool's own traits."""
        return self._tool.traits

    async def call(self, arguments: Mapping[str, JSON], context: CallContext = NO_CONTEXT) -> ToolResult:
        """Run the tool."""
        try:
            path = self._workspace.resolve(str(arguments.get(self.traits.subject)))
            if path.is_file() and path.stat().st_size > FILE_LIMIT:
                return await self._tool.call(arguments, context)  # too large to be kept: the change cannot be undone
            before = _read(path)
        except (ToolError, OSError):
            return await self._tool.call(arguments, context)  # the tool's own call reports the error
        result = await self._tool.call(arguments, context)
        after = _read(path)
        if after is not None and after != before:
            self._journal.add(path, before, after, self._workspace.display_path(path))
        return result


def recorded(tools: Iterable[AnyTool], workspace: Workspace, journal: EditJournal) -> list[AnyTool]:
    """Return the tools; those that edit one file record each change."""
    return [
        RecordedTool(tool, workspace, journal)
        if tool.traits.sensitivity == "edit" and tool.traits.subject_kind == "path"
        else tool
        for tool in tools
    ]


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
