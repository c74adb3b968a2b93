"""A server with one tool, whose name the demo's tiny model can write. Over stdio."""

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("calc")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(first: int, second: int) -> str:
    """Add two numbers."""
    return str(first + second)


if __name__ == "__main__":
    server.run("stdio")
