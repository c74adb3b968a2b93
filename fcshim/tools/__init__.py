"""Tools that run in this process: their definitions, permissions and execution.

Rule: a tool never raises to its caller; every failure is a result that the model can read.
"""

from fcshim.tools.base import AnyTool, CallContext, ToolProgress, Traits
from fcshim.tools.executor import CallEvent, CallFinished, CallProgressed, CallStarted, Executor
from fcshim.tools.function import FunctionTool
from fcshim.tools.permission import PermissionDecision, PermissionRequest, Permissions
from fcshim.tools.registry import Registry
from fcshim.tools.result import ToolResult
from fcshim.tools.rules import PermissionRule, check_rules, parse_rules

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
    "check_rules",
    "parse_rules",
]
