"""Tools that run here: what a model may call, and how it is called safely.

Rule: a tool never raises at its caller; whatever goes wrong is a result that the model can read.
Neighbours: `agent` runs them; `messages.Tool` is what the model sees of one; `mcp` brings those of other programs.
"""

from fcshim.tools.base import AnyTool, CallContext, ToolProgress, Traits
from fcshim.tools.executor import CallEvent, CallFinished, CallProgressed, CallStarted, Executor
from fcshim.tools.function import FunctionTool
from fcshim.tools.permission import PermissionDecision, PermissionRequest, Permissions
from fcshim.tools.registry import Registry
from fcshim.tools.result import ToolResult
from fcshim.tools.rules import PermissionRule, parse_rules

__all__ = [
    "AnyTool",
    "CallContext",
    "CallEvent",
    "CallFinished",
    "CallProgressed",
    "CallStarted",
    "Executor",
    "FunctionTool",
    "PermissionDecision",
    "PermissionRequest",
    "PermissionRule",
    "Permissions",
    "Registry",
    "ToolProgress",
    "ToolResult",
    "Traits",
    "parse_rules",
]
