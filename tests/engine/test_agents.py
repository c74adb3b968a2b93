"""A real engine, a trained model and a real MCP server: through the proxy, and from the terminal."""

import json
import sys
from pathlib import Path

import pytest
from openai import AsyncOpenAI

from tests.chat.pseudo_terminal import terminal
from tests.engine.llama_server import LlamaServer
from tests.server.proxy import running_proxy

CALC = Path(__file__).parent.parent / "mcp" / "servers" / "calc.py"
QUESTION = "call mcp__calc__add with first=19, second=23"


@pytest.fixture
def servers(tmp_path: Path) -> str:
    """The configuration file of one MCP server."""
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"calc": {"command": sys.executable, "args": [str(CALC)]}}}))
    return str(file)


async def test_a_client_without_tools_gets_an_agent(trained_server: LlamaServer, servers: str, tmp_path: Path) -> None:
    async with (
        running_proxy(
            trained_server.url, limit=60, mcp=servers, pins=str(tmp_path / "pins.json"), allow=("calc:*",)
        ) as url,
        AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as sdk,
    ):
        stream = await sdk.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": QUESTION}], stream=True, temperature=0
        )
        said = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    assert "mcp__calc__add returned 42" == said


async def test_a_person_gets_an_agent(trained_server: LlamaServer, servers: str, tmp_path: Path) -> None:
    async with terminal("chat", trained_server.url, "--mcp", servers, state=tmp_path) as screen:
        await screen.expect("/help")
        screen.enter(QUESTION)
        await screen.expect('● mcp__calc__add {"first": 19, "second": 23}')
        await screen.expect("what to do instead:")
        screen.enter("y")
        await screen.expect("  ⎿ 42")
        await screen.expect("mcp__calc__add returned 42")
