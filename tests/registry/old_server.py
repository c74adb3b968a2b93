"""A small server for the oldest SDKs that are in use: `old_server.py [stdio | sse PORT]`."""

import os
import sys

from mcp.server.fastmcp import FastMCP

server = FastMCP("old", port=int(sys.argv[2]) if len(sys.argv) > 2 else 0, host="127.0.0.1")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def process() -> str:
    """Give the number of this process."""
    return str(os.getpid())


server.run(sys.argv[1] if len(sys.argv) > 1 else "stdio")
