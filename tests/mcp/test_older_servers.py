"""Servers that the current protocol breaks: what they expect is tried after the failure, and remembered."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from fcshim.mcp import HttpTransport, McpServerConfig, Pins, StdioTransport
from tests.mcp.server_programs import manager, serve_over_http, server


async def test_a_server_that_the_probe_breaks_gets_the_handshake_of_its_era(tmp_path):
    starts = tmp_path / "starts"
    config = server("raw", "crashes-at-discover", str(starts))
    async with manager(config, pins=Pins(tmp_path / "pins.json")) as servers:
        (first,) = servers.status()
        called = await servers.call("f:work", {})
    async with manager(config, pins=Pins(tmp_path / "pins.json")) as servers:
        (second,) = servers.status()

    assert ("2025-11-25", 1) == (first.protocol_version, first.tools)
    assert not called.is_error
    assert 1 == second.tools
    assert 3 == len(starts.read_text().split())  # the second time, no attempt is wasted


async def test_a_server_that_recovers_from_what_was_remembered_is_reached_again(tmp_path):
    pins = Pins(tmp_path / "pins.json")
    config = server()
    pins.remember_connect_mode(config, "sse handshake")
    async with manager(config, pins=pins) as servers:
        (status,) = servers.status()

    assert 0 < status.tools


@pytest.mark.parametrize("handshake", [False, True])
async def test_a_url_of_the_older_transport_is_reached(tmp_path, handshake):
    with serve_over_http("sse") as endpoint:
        transport = HttpTransport(url=endpoint.url)
        config = McpServerConfig(name="f", transport=transport, handshake=handshake)
        async with manager(config, pins=Pins(tmp_path / "pins.json")) as servers:
            result = await servers.call("f:add", {"a": 1, "b": 2})

    assert "3" == result.text
    assert any("sse" in way for way in json.loads((tmp_path / "pins.json").read_text())["ways"].values())


async def served_status(status: int):
    """Answer every request with a status; yield the URL."""

    async def handle(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    return await asyncio.start_server(handle, "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, "it answered 401: it needs a login (fcshim tools login) or a key in its headers"),
        (403, "it answered 403: it needs a login (fcshim tools login) or a key in its headers"),
        (404, "it answered 404"),
        (500, "it answered 500"),
    ],
)
async def test_a_refused_request_is_told_with_its_status_and_what_to_do(status, expected):
    listener = await served_status(status)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        config = McpServerConfig(name="far", transport=HttpTransport(url=f"http://127.0.0.1:{port}/mcp"))
        async with manager(config) as servers:
            (state,) = servers.status()

    assert expected == state.error


async def test_a_program_s_end_is_told_in_one_line_with_its_beginning(tmp_path):
    program = tmp_path / "dies.py"
    program.write_text("import sys\nsys.stderr.write('line one\\n' * 400 + 'the cause\\n')\nsys.exit(3)")
    async with manager(server("raw", "dead"), _program("long", program)) as servers:
        short, long = (status.error for status in servers.status())

    assert "it exited with status 1; it wrote: no key was given" == short
    assert long.startswith("it exited with status 3; it wrote: …")
    assert long.endswith("line one the cause")
    assert "\n" not in long


def _program(name: str, file: Path) -> McpServerConfig:
    return McpServerConfig(name=name, transport=StdioTransport(command=sys.executable, args=(str(file),)))
