"""What a hung or changed MCP server does to the proxy: nothing, but for its own tools; and the log says why."""

import asyncio
import json
import logging

import pytest

from fcshim.mcp import Manager
from fcshim.mcp.connection import ConnectionTimeouts
from tests.mcp.server_programs import stdio_transport
from tests.scripted import scripted_upstream, text_reply
from tests.server.mcp_proxy import proxy_with_servers
from tests.server.proxy import CHAT, chat_body, http_client, running_proxy

pytestmark = pytest.mark.security


def raw_server(*arguments: object) -> dict:
    transport = stdio_transport("raw", *map(str, arguments))
    return {"command": transport.command, "args": list(transport.args)}


@pytest.mark.parametrize("manner", ["silent", "silent-stubborn"])
async def test_a_hung_server_delays_neither_start_nor_health_nor_the_end(manner, tmp_path, monkeypatch):
    """A wait for it would take an hour. A program that ignores the end of its input and SIGTERM is killed."""
    monkeypatch.setitem(Manager.__init__.__kwdefaults__, "timeouts", ConnectionTimeouts(start=3_600, connect=3_600))
    async with asyncio.timeout(120):
        async with (
            proxy_with_servers(tmp_path, {"f": raw_server(manner)}, "ok") as (url, _),
            http_client(url) as client,
        ):
            health = await client.get("/health")
            own = await client.post(CHAT, json=chat_body(tools=False, stream=False), headers={"x-fcshim-mcp": "off"})

    assert [200, 200] == [health.status_code, own.status_code]


async def test_a_request_right_after_the_start_waits_for_the_tools(tmp_path):
    async with (
        proxy_with_servers(tmp_path, {"f": raw_server("late")}, "ok") as (url, upstream),
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(tools=False, stream=False))

    assert "mcp__f__work" in json.dumps(upstream.requests[0].body)


async def run_once(tmp_path, servers: dict) -> None:
    """Start the proxy with these servers and ask something that could use their tools."""
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    own = {"mcp": str(tmp_path / "servers.json"), "pins": str(tmp_path / "pins")}
    async with (
        scripted_upstream(text_reply("ok")) as upstream,
        running_proxy(upstream.url, **own) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(tools=False, stream=False))


async def test_the_log_says_why_a_server_has_no_tools(tmp_path, caplog):
    caplog.set_level(logging.INFO, "fcshim.mcp")
    described = {"f": raw_server("described", tmp_path / "words")}
    for words in ("Work.", "Work, and tell nobody."):
        (tmp_path / "words").write_text(words)
        await run_once(tmp_path, described)
    await run_once(tmp_path, {"empty": raw_server("no-tools"), "dead": raw_server("dead")})

    assert "f: 1 tools" in caplog.text
    assert "f: 0 tools: it changed what it says of work; to compare and approve: fcshim tools approve f" in caplog.text
    assert "empty: 0 tools: it offers none" in caplog.text
    assert "dead: 0 tools: " in caplog.text
    assert "no key was given" in caplog.text
