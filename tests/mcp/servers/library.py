"""A server made with the SDK that has resources, a prompt with a completion, and a tool that asks for the roots."""

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import Completion, ToolAnnotations

server = MCPServer("library")


@server.resource("book://one", mime_type="text/plain")
def book() -> str:
    """A book."""
    return "Once upon a time"


@server.resource("book://picture", mime_type="image/png")
def picture() -> bytes:
    """A picture."""
    return b"\x89PNG"


@server.resource("book://by/{author}")
def by(author: str) -> str:
    """The books of an author."""
    return f"books of {author}"


@server.prompt()
def review(path: str, depth: str = "short") -> str:
    """Review a file."""
    return f"Review {path}, {depth}."


@server.completion()
async def complete(ref, argument, context):
    """Propose depths."""
    return Completion(values=[each for each in ("short", "thorough") if each.startswith(argument.value)])


@server.tool()
async def where(ctx: Context) -> str:
    """Tell the roots of the client."""
    return " ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def burn() -> str:
    """Burn the books."""
    return "burnt"


if __name__ == "__main__":
    server.run("stdio")
