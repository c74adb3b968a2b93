"""The tool interface, and the values that pass through it.

A tool has a definition for the model, and traits for permissions and scheduling; a failure is a result, never an
exception.
"""

import fnmatch
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.tools.result import ToolResult

Sensitivity: TypeAlias = Literal["safe", "edit", "ask"]
"""`safe` runs without asking, `edit` changes files and runs without asking in mode `accept_edits`, `ask` asks."""

SubjectKind: TypeAlias = Literal["text", "command", "path", "url"]
"""How permission rules read the subject."""


class FileChange(msgspec.Struct, frozen=True):
    """The change that a call would make to an existing file: its text `before` (None if it is not text) and `after`.

    `arguments`: the parameters that `after` shows completely.
    """

    path: str
    before: str | None
    after: str
    arguments: tuple[str, ...]


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's properties for permissions and scheduling.

    `reads_only`: the tool claims to change nothing; a server's claim is a hint, which replaces no question by itself.
    `allowed`: the operator lets it run. `timeout` in seconds per call and `max_output` in characters of a result take
    the place of the executor's defaults. `source`: where the tool comes from. `category`: what it is for; empty for
    what `tool_category` derives from the source. `subject`: the parameter that permission rules match, read as
    `subject_kind` says, a path from the folder `root`. `ruled_as`: tools whose deny and ask rules with a pattern hold
    for this tool too. `parallel` false: it never runs beside another tool that is not parallel. `warnings`: what every
    call risks, as verb phrases. `change` returns the change that a call would make to an existing file, and raises
    `ToolError` if the call would fail.
    """

    sensitivity: Sensitivity = "ask"
    reads_only: bool = False
    allowed: bool = False
    timeout: float | None = None
    max_output: int | None = None
    source: str = ""
    category: str = ""
    subject: str = ""
    subject_kind: SubjectKind = "text"
    root: Path | None = None
    ruled_as: tuple[str, ...] = ()
    parallel: bool = True
    warnings: tuple[str, ...] = ()
    change: Callable[[Mapping[str, JSON]], FileChange | None] | None = None


class ToolProgress(msgspec.Struct, frozen=True):
    """A progress report; `done` and `total` (None if unknown) are in the tool's own units."""

    done: float
    total: float | None = None
    message: str = ""


def _ignore(_: ToolProgress) -> None:
    """Discard the report."""


def _permit(_: Path) -> bool:
    """Permit every file."""
    return True


class CallContext(msgspec.Struct, frozen=True):
    """The context of one call: its id, a callback for progress, and which files a search may open."""

    call_id: str = ""
    report: Callable[[ToolProgress], None] = _ignore
    may_open: Callable[[Path], bool] = _permit


NO_CONTEXT = CallContext()


@runtime_checkable
class AnyTool(Protocol):
    """A tool that can be called."""

    @property
    def definition(self) -> Tool:
        """The name, description and schema that the model gets."""

    @property
    def traits(self) -> Traits:
        """The properties for permissions and scheduling."""

    async def call(self, arguments: Mapping[str, JSON], context: CallContext = NO_CONTEXT) -> ToolResult:
        """Run the tool; a failure is a result with `is_error`. Cancelling the call cancels the work."""


BUILTIN_CATEGORIES = ("files", "search", "shell", "web", "control", "skills", "agents", "sessions")
MCP_CATEGORY = "mcp"
"""The category of a server's tools for which the operator names none."""


def tool_category(tool: AnyTool) -> str:
    """Return the category of a tool: its own, `files` of the source `builtin:files`, `mcp`, `custom`; else empty."""
    traits = tool.traits
    kind, _, part = traits.source.partition(":")
    return traits.category or (part if kind == "builtin" else kind)


def offered_definition(tool: AnyTool) -> Tool:
    """Return the tool's definition with its category."""
    return msgspec.structs.replace(tool.definition, category=tool_category(tool))


def is_named(tool: AnyTool, pattern: str) -> bool:
    """Return whether a pattern names a tool: by its name, `mcp__*`, or by its category, `@web`."""
    if pattern.startswith("@"):
        return fnmatch.fnmatchcase(tool_category(tool), pattern[1:])
    return fnmatch.fnmatchcase(tool.definition.name, pattern)
