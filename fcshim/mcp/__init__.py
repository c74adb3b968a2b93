"""MCP servers: started, watched, asked; their tools offered to any model.

Rule: one bad server never hurts another; the SDK, slow to import, comes with the first name that needs it.
Neighbours: `tools` executes what is found here, `cli.tools` and the agent ask the manager.
"""

from importlib import import_module
from typing import TYPE_CHECKING

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
    """Import the SDK at the first use of what needs it: reading a configuration does not."""
    if name not in _LAZY:
        raise AttributeError(f"module 'fcshim.mcp' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
