"""fcshim with MCP servers of its own, in front of a scripted upstream.

Rule: the servers are real programs made with the SDK, over stdio or HTTP; one over HTTP serves a whole module.
"""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from tests.mcp.server_programs import stdio_transport
from tests.scripted import Script, ScriptedUpstream, scripted_upstream, text_reply
from tests.server.proxy import running_proxy

WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def call_text(name: str, /, **arguments: object) -> str:
    """Write a call as the model writes it."""
    return f"<function_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</function_call>"


ADD = call_text("mcp__f__add", a=1, b=2)


def stdio_server(name: str) -> dict:
    """Return the configuration entry of a stdio server."""
    reach = stdio_transport(name)
    return {"command": reach.command, "args": list(reach.args)}


@contextlib.asynccontextmanager
async def proxy_with_servers(
    folder: Path, servers: dict, *scripts: Script | str, **settings: object
) -> AsyncIterator[tuple[str, ScriptedUpstream]]:
    """Serve fcshim with these MCP servers, which it trusts; yield its URL, and the upstream that plays the scripts."""
    file = folder / "servers.json"
    trusted = {name: {"trust": "annotations", **fields} for name, fields in servers.items()}
    file.write_text(json.dumps({"mcpServers": trusted}))
    played = (text_reply(each) if isinstance(each, str) else each for each in scripts)
    own = {"mcp": str(file), "pins": str(folder / "pins.json")}
    async with scripted_upstream(*played) as upstream, running_proxy(upstream.url, **own, **settings) as url:
        yield url, upstream


def mixed_calls(city: str = "Oslo") -> str:
    """Write a reply that calls a server tool and a client tool."""
    return f"See. {ADD}\n{call_text('weather', city=city)}"


def prompts(upstream: ScriptedUpstream) -> list[str]:
    """Return the conversation of each upstream request, as one text."""
    return [
        "\n".join(f"{each['role']}: {each['content']}" for each in got.body["messages"])
        for got in upstream.requests
        if got.body
    ]
