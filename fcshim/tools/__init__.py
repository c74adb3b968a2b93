"""Tools that run here: Python functions that a model may call.

Rule: a tool never raises at its caller; whatever goes wrong is a result that the model can read.
Neighbours: `agent` runs them; `messages.Tool` is what the model sees of one.
"""

from fcshim.tools.executor import Executor
from fcshim.tools.function import FunctionTool
from fcshim.tools.result import ToolResult

__all__ = ["Executor", "FunctionTool", "ToolResult"]
