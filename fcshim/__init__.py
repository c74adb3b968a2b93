"""fcshim gives native-grade tool calling to language models that have none.

Rule: `__all__` is the public API for use. More of it is in `fcshim.agent`, `tools`, `mcp`, `messages`, `events` and
`errors`; `fcshim.ext` is the API for extension. Modules that need a network library are imported at the first use of
their names.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from fcshim.errors import FcshimError
from fcshim.events import (
    CallError,
    Error,
    Event,
    Reasoning,
    Stop,
    StopReason,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    event_to_dict,
)
from fcshim.extras import naming_extra
from fcshim.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from fcshim.parse.stream import StreamParser, parse
from fcshim.reply import Reply, fold

if TYPE_CHECKING:
    from fcshim import openai as openai
    from fcshim.client import Client, RunResult
    from fcshim.pipeline.in_process import Prepared, ReplyStream, prepare
    from fcshim.prompt.dialect_folder import load_dialect
    from fcshim.sync_client import SyncClient
    from fcshim.tools import FunctionTool, ToolResult
    from fcshim.upstream import Timeouts

__all__ = [
    "AssistantMessage",
    "CallError",
    "Client",
    "Error",
    "Event",
    "FcshimError",
    "FunctionTool",
    "MediaPart",
    "Message",
    "Prepared",
    "Reasoning",
    "Reply",
    "ReplyStream",
    "RunResult",
    "Stop",
    "StopReason",
    "StreamParser",
    "SyncClient",
    "SystemMessage",
    "Text",
    "TextPart",
    "Timeouts",
    "Tool",
    "ToolCall",
    "ToolCallChunk",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolMessage",
    "ToolResult",
    "Usage",
    "UserMessage",
    "event_to_dict",
    "fold",
    "load_dialect",
    "parse",
    "prepare",
]

_LAZY_IMPORTS = {
    "Client": "fcshim.client",
    "FunctionTool": "fcshim.tools",
    "Prepared": "fcshim.pipeline.in_process",
    "ReplyStream": "fcshim.pipeline.in_process",
    "RunResult": "fcshim.client",
    "SyncClient": "fcshim.sync_client",
    "Timeouts": "fcshim.upstream",
    "ToolResult": "fcshim.tools",
    "load_dialect": "fcshim.prompt.dialect_folder",
    "openai": "fcshim.openai",
    "prepare": "fcshim.pipeline.in_process",
}


def __getattr__(name: str) -> object:
    """Import expensive modules at their first use, so that `import fcshim` alone stays under 0.15 s."""
    if name == "__version__":
        return import_module("importlib.metadata").version("fcshim")
    if name not in _LAZY_IMPORTS:
        raise AttributeError(f"module 'fcshim' has no attribute {name!r}")
    with naming_extra():
        module = import_module(_LAZY_IMPORTS[name])
        value: object = module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
