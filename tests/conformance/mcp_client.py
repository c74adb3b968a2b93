"""The client that MCP's conformance suite runs against its servers: `python -m tests.conformance.mcp_client URL`.

It connects with the settings of a servers file and calls each tool once, or as the suite asks. The variables
MCP_CONFORMANCE_SCENARIO and MCP_CONFORMANCE_CONTEXT (JSON) are the suite's.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx

from fcshim.events import JSON
from fcshim.mcp import Manager
from fcshim.mcp.connection_state import ConnectionState
from fcshim.mcp.logins import OAuthLogins
from fcshim.mcp.pins import Pins
from fcshim.mcp.server_requests import ElicitationForm, elicitation_callback
from fcshim.mcp.settings import HttpTransport, McpServerConfig, OAuthClient
from fcshim.messages import Tool
from fcshim.tools import AnyTool

_EXAMPLES: Mapping[str, JSON] = {"number": 1, "integer": 1, "boolean": True, "array": [], "object": {}}


class Browser:
    """A user who opens the page of a login and agrees."""

    def __init__(self) -> None:
        self._pages: list[asyncio.Task[None]] = []

    async def show(self, url: str) -> None:
        """Open a page, beside the login that waits for its redirect."""
        self._pages.append(asyncio.create_task(self._open(url)))

    async def _open(self, url: str) -> None:
        async with httpx.AsyncClient(follow_redirects=True) as client:
            await client.get(url)


async def agree(form: ElicitationForm) -> Mapping[str, JSON]:
    """Send a form as it is: with its defaults."""
    return {name: field["default"] for name, field in form.schema["properties"].items() if "default" in field}


async def run(url: str, context: Mapping[str, JSON], folder: Path) -> int:
    """Connect and call; return the status of the program, 1 if there was no connection."""
    client = None
    if "client_id" in context:
        client = OAuthClient(client_id=context["client_id"], client_secret=context.get("client_secret"))
    server = McpServerConfig(name="suite", transport=HttpTransport(url=url, oauth_client=client), timeout=20.0)
    logins = OAuthLogins(folder / "logins", show=Browser().show)
    asking = elicitation_callback(agree)
    async with Manager([server], pins=Pins(folder / "pins.json"), logins=logins, elicitation=asking) as servers:
        for tool, arguments in _calls(servers.tools(), context):
            result = await tool.call(arguments)
            sys.stdout.write(f"{tool.definition.name}: {result.flat_text}\n")
        (status,) = servers.status()
        sys.stdout.write(f"{status.state.value} {status.protocol_version} {status.error}\n")
        return 0 if status.state is ConnectionState.READY else 1


def _calls(tools: list[AnyTool], context: Mapping[str, JSON]) -> Iterator[tuple[AnyTool, dict[str, JSON]]]:
    """Yield what to call: what the suite asks for, else each tool."""
    named = {tool.definition.name.rpartition("__")[2]: tool for tool in tools}
    if "toolCalls" in context:
        yield from ((named[call["name"]], call["arguments"]) for call in context["toolCalls"] if call["name"] in named)
    else:
        yield from ((tool, _arguments(tool.definition)) for tool in tools)


def _arguments(tool: Tool) -> dict[str, JSON]:
    properties = tool.parameters.get("properties", {})
    return {name: _EXAMPLES.get(properties[name].get("type"), "a") for name in tool.parameters.get("required", ())}


def main() -> None:
    """Run against the URL that the suite appends to the command."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(asyncio.run(run(sys.argv[-1], context, Path(folder))))


if __name__ == "__main__":
    main()
