"""A server whose tools leave traces in files: which calls began, which were cancelled. Over stdio."""

import asyncio
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("watched")


@server.tool()
async def wait(trace: str) -> str:
    """Wait for ever, and write down how it goes."""
    leave(trace, "began")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        leave(trace, "cancelled")
        raise
    return "waited"


def leave(trace: str, word: str) -> None:
    """Leave a trace."""
    Path(trace).write_text(word)


if __name__ == "__main__":
    server.run("stdio")
