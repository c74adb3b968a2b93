"""The tool interface, and the values that pass through it.

Rule: a tool has a definition for the model, and traits for permissions and scheduling; a failure is a result, never an
exception.
"""

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
    the place of the executor's. `source`: where the tool comes from. `subject`: the parameter that permission rules
    match, read as `subject_kind` says, a path from the folder `root`. `ruled_as`: tools whose deny and ask rules with a
    pattern hold for this tool too. `parallel` false: it never runs beside another tool that is not parallel.
    `warnings`: what every call risks, as verb phrases. `change` returns the change that a call would make to an
    existing file, and raises `ToolError` if the call would fail.
    """

    sensitivity: Sensitivity = "ask"
    reads_only: bool = False
    allowed: bool = False
    timeout: float | None = None
    max_output: int | None = None
    source: str = ""
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
