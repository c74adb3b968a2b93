"""MCP servers: connections to them, and their tools for any model.

Rule: a failing server never affects another; the SDK, whose import takes over a second, is imported by the first
name that needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from fcshim.extras import naming_extra
from fcshim.mcp.config_file import load_servers
from fcshim.mcp.settings import HttpTransport, InProcessTransport, McpServerConfig, NpmTransport, StdioTransport

if TYPE_CHECKING:
    from fcshim.mcp.manager import Manager
    from fcshim.mcp.pins import Pins

__all__ = [
    "HttpTransport",
    "InProcessTransport",
    "Manager",
    "McpServerConfig",
    "NpmTransport",
    "Pins",
    "StdioTransport",
    "load_servers",
]

_LAZY = {"Manager": "fcshim.mcp.manager", "Pins": "fcshim.mcp.pins"}


def __getattr__(name: str) -> object:
    """Import `Manager` and `Pins` at their first use: they need the SDK, reading a configuration does not."""
    if name not in _LAZY:
        raise AttributeError(f"module 'fcshim.mcp' has no attribute {name!r}")
    with naming_extra("mcp"):
        return getattr(import_module(_LAZY[name]), name)
