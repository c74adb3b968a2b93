"""A gateway over HTTP: requirement 39, address checks and keys."""

import asyncio
import contextlib

import httpx
import pytest
import uvicorn

from fcshim.config import Secret
from fcshim.errors import ConfigError
from fcshim.mcp import HttpTransport, McpServerConfig
from fcshim.mcp.connection import ConnectionState
from fcshim.mcp.gateway import Gateway
from fcshim.mcp.gateway_server import http_app
from fcshim.tools import Executor
from tests.engine.process import free_port
from tests.mcp.server_programs import eventually, manager


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@contextlib.asynccontextmanager
async def served(**settings):
    port = free_port()
    app = http_app(Gateway(Executor([add])), **settings)
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
