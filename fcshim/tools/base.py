"""What every tool is, wherever it comes from.

Rule: a tool says what the model is told of it, how careful one must be with it, and never raises at its caller.
Neighbours: `function` and the MCP room make tools, `registry` holds them, `permission` reads the traits.
"""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.tools.result import ToolResult

Sensitivity: TypeAlias = Literal["safe", "edit", "ask"]
"""`safe` never asks, `edit` changes files and is freed by `accept_edits`, anything else asks."""


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """How careful one must be with a tool.

    `reads_only` is what a server says of its tool: a hint, never a reason not to ask. `allowed`: the operator lets it
    run. `timeout`: seconds that it may take, where it is other than usual. `source`: who offers it. `subject`: the
    argument that rules are about. Not `parallel`: it must not run beside others that are not.
    """

    sensitivity: Sensitivity = "ask"
    reads_only: bool = False
    allowed: bool = False
    timeout: float | None = None
    source: str = ""
    subject: str = ""
    parallel: bool = True


class ToolProgress(msgspec.Struct, frozen=True):
    """How far a call is; `total` where it is known, both in the tool's own units."""

    done: float
    total: float | None = None
    message: str = ""


def _ignore(_: ToolProgress) -> None:
    """Nobody listens."""


class CallContext(msgspec.Struct, frozen=True):
    """What a tool may know of the call that it serves, and whom it may tell how far it is."""

    call_id: str = ""
    report: Callable[[ToolProgress], None] = _ignore


NO_CONTEXT = CallContext()


@runtime_checkable
class AnyTool(Protocol):
    """A tool that can be called."""

    @property
    def definition(self) -> Tool:
        """What the model is told."""

    @property
    def traits(self) -> Traits:
        """How careful one must be."""

    async def call(self, arguments: Mapping[str, JSON], context: CallContext = NO_CONTEXT) -> ToolResult:
        """Do the work; whatever goes wrong is a failed result. Cancelling the call cancels the work."""
