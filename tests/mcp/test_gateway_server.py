"""A gateway over HTTP: requirement 39, address checks and keys."""

import asyncio
import contextlib
import json

import httpx
import pytest
import uvicorn

from fcshim.config import Secret
from fcshim.errors import ConfigError
from fcshim.mcp import HttpTransport, McpServerConfig
from fcshim.mcp.connection_state import ConnectionState
from fcshim.mcp.gateway import Gateway
from fcshim.mcp.gateway_server import http_app
from fcshim.tools import Executor
from tests.engine.process import free_port
from tests.mcp.server_programs import eventually, manager

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@contextlib.asynccontextmanager
async def served(*tools, **settings):
    port = free_port()
    app = http_app(Gateway(Executor([add, *tools])), port=port, **settings)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    task = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    yield f"http://127.0.0.1:{port}/mcp"
    server.should_exit = True
    await task


@pytest.mark.parametrize("handshake", [False, True])
async def test_other_programs_call_over_http(handshake):
    async with (
        served() as url,
        manager(McpServerConfig(name="f", transport=HttpTransport(url=url), handshake=handshake)) as servers,
    ):
        result = await servers.call("f:add", {"a": 1, "b": 2})

    assert "3" == result.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:80"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 400),
    ],
)
async def test_web_pages_and_rebound_names_are_refused(headers, status):
    async with served() as url, httpx.AsyncClient() as client:
        asked = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
        response = await client.post(url, content=body, headers=asked | headers)

    assert status == response.status_code


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
async def test_a_page_of_the_servers_own_origin_may_ask(name):
    async with served() as url, httpx.AsyncClient() as client:
        port = httpx.URL(url).port
        asked = {"Accept": "application/json, text/event-stream", "Origin": f"http://{name}:{port}"}
        response = await client.post(url, json=INITIALIZE, headers=asked | {"Host": f"localhost:{port}"})
        other = await client.post(url, json=INITIALIZE, headers=asked | {"Origin": f"http://{name}:{port - 1}"})

    assert (200, 403) == (response.status_code, other.status_code)


async def test_white_space_around_the_values_of_headers_is_no_part_of_them():
    envelope = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    body["params"] = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": envelope}
    content = json.dumps(body).encode()
    async with served() as url:
        port = httpx.URL(url).port
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: localhost:{port} \r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nContent-Length: {len(content)}\r\n"
            "MCP-Protocol-Version: 2026-07-28 \r\nMcp-Method:\ttools/call \t\r\nMcp-Name:   add  \r\n"
            "Connection: close\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + content)
        answer = await reader.read()
        writer.close()

    assert b"200 OK" in answer.splitlines()[0], answer
    assert b'"text":"3"' in answer


@pytest.mark.parametrize("given", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3cret"}])
async def test_requests_without_the_key_are_refused(given):
    async with served(key=Secret("s3cret")) as url:
        async with httpx.AsyncClient() as client:
            response = await client.post(url, json={}, headers=given)
        async with manager(McpServerConfig(name="f", transport=HttpTransport(url=url, headers=given))) as servers:
            (status,) = servers.status()

    assert 401 == response.status_code
    assert ConnectionState.READY is not status.state


async def test_requests_with_the_key_are_served():
    async with served(key=Secret("s3cret")) as url:
        reach = HttpTransport(url=url, headers={"Authorization": "Bearer s3cret"})
        async with manager(McpServerConfig(name="f", transport=reach)) as servers:
            result = await servers.call("f:add", {"a": 1, "b": 2})

    assert "3" == result.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.com"])
def test_a_public_address_needs_a_key(host):
    with pytest.raises(ConfigError, match="expected an API key"):
        http_app(Gateway(Executor([add])), host=host)

    assert http_app(Gateway(Executor([add])), host=host, key=Secret("k"))


@pytest.mark.security
async def test_a_body_that_stops_is_answered_and_cut():
    async with served(body_timeout=0.1) as url:
        address = httpx.URL(url)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        head = f"POST /mcp HTTP/1.1\r\nHost: {address.host}:{address.port}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Accept: application/json, text/event-stream\r\nContent-Length: 100\r\n\r\n{{".encode())
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not come in time" in answer


@pytest.mark.security
async def test_a_running_call_is_not_cut_by_the_limit_of_bodies():
    async def slow() -> str:
        """Wait."""
        await asyncio.sleep(1.5)
        return "done"

    async with (
        served(slow, body_timeout=1.0) as url,
        manager(McpServerConfig(name="f", transport=HttpTransport(url=url))) as servers,
    ):
        result = await servers.call("f:slow", {})

    assert "done" == result.text
