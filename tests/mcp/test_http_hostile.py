"""Misbehaving servers over HTTP, and secrets that must not be shown."""

import asyncio
import contextlib
import gzip
import json
import logging

import pytest

from fcshim.mcp import HttpTransport, McpServerConfig, StdioTransport
from fcshim.mcp.connection import ConnectionTimeouts
from fcshim.mcp.connection_state import ConnectionState
from tests.mcp.server_programs import manager

CANARY = "c4n4ry"


class MisbehavingServer:
    """A server of the protocol of 2025 over HTTP that misbehaves as its `manner` says."""

    def __init__(self, manner):
        self.manner = manner
        self.asked = []
        self.tasks = set()

    async def handle(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = next((int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length")), 0)
            request = json.loads(await reader.readexactly(size) or b"{}")
            self.asked.append((head, request.get("method")))
            await self.answer(writer, request)
            await writer.drain()

    async def answer(self, writer, request):
        method, number = request.get("method"), request.get("id")
        if method == "initialize":
            version = request["params"]["protocolVersion"]
            result = {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "b", "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call" and self.manner != "good":
            await self.misbehave(writer, number)
            return
        else:
            send(writer, 404 if number is None or method == "server/discover" else 200, b"")
            return
        send(writer, 200, json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode())

    async def misbehave(self, writer, number):
        many = {"content": [], "structuredContent": {"v": [1] * 450_000}}
        many_values = json.dumps({"jsonrpc": "2.0", "id": number, "result": many}).encode()
        bodies = {
            "values": (many_values, "application/json"),
            "values-in-event": (b"data: " + many_values + b"\n\n", "text/event-stream"),
            "html": (b"<html>", "text/html"),
        }
        if self.manner in bodies:
            body, kind = bodies[self.manner]
            send(writer, 200, body, kind=kind)
            return
        text = {"content": [{"type": "text", "text": "x" * 50}]}
        match self.manner:
            case "endless":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
                with contextlib.suppress(ConnectionError):
                    for _ in range(1_000):
                        writer.write(b" " * 100_000)
                        await writer.drain()
            case "packed":
                body = gzip.compress(json.dumps({"jsonrpc": "2.0", "id": number, "result": text}).encode())
                send(writer, 200, body, "Content-Encoding: gzip\r\n")
            case "broken":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
            case "reset":
                writer.transport.abort()
            case "elsewhere":
                send(writer, 307, b"", "Location: http://169.254.169.254/\r\n")
            case "status":
                send(writer, 500, b"oops " + CANARY.encode())
            case "silent":
                await asyncio.sleep(30)


def send(writer, status, body, more="", kind="application/json"):
    head = (
        f"HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)


@contextlib.asynccontextmanager
async def bad(manner):
    made = MisbehavingServer(manner)
    server = await asyncio.start_server(made.handle, "127.0.0.1", 0)
    yield made, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    server.close()
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("manner", "said"),
    [
        ("endless", "longer than 16777216 bytes"),
        ("values", "it has more than 50000 values"),
        ("values-in-event", "was lost during the call"),
        ("packed", "the answer is packed"),
        ("html", "Unexpected content type"),
        ("broken", ""),
        ("reset", "the server cannot be reached"),
        ("elsewhere", "not followed"),
        ("status", "Server returned an error response"),
        ("silent", "gave no result within 2 seconds"),
    ],
)
async def test_a_call_fails_and_the_next_server_is_unhurt(manner, said):
    async with bad(manner) as (made, url), bad("good") as (_, other):
        limit = 2.0 if manner == "silent" else 60.0  # millions of bytes take seconds on a busy machine
        servers = [
            McpServerConfig(name=name, transport=HttpTransport(url=at), handshake=True, timeout=limit)
            for name, at in (("bad", url), ("good", other))
        ]
        async with manager(*servers) as managed:
            result = await managed.call("bad:work", {})
            states = [status.state for status in managed.status()]

    assert result.is_error
    assert said in result.text
    assert ConnectionState.READY is states[1]
    assert 1 == [method for _, method in made.asked].count("tools/call")


async def test_only_plain_bodies_are_asked_for():
    async with (
        bad("good") as (made, url),
        manager(McpServerConfig(name="f", transport=HttpTransport(url=url), handshake=True)),
    ):
        pass

    assert all("accept-encoding: identity\r\n" in head.lower() for head, _ in made.asked)


@pytest.mark.parametrize(
    "manner", ["endless", "packed", "html", "broken", "reset", "elsewhere", "status", "silent", "gone"]
)
async def test_secrets_do_not_show(manner, caplog):
    caplog.set_level(logging.DEBUG, "fcshim")
    async with bad(manner) as (made, url):
        address = "http://127.0.0.1:1/mcp" if manner == "gone" else url
        reach = HttpTransport(url=f"{address}?key={CANARY}", headers={"Authorization": f"Bearer {CANARY}"})
        program = StdioTransport(command="/nothing", args=(f"--key={CANARY}",), env={"KEY": CANARY})
        settings = [
            McpServerConfig(name="a", transport=reach, handshake=True, timeout=0.5),
            McpServerConfig(name="b", transport=program),
        ]
        async with manager(*settings, timeouts=ConnectionTimeouts(reconnect=0.5)) as managed:
            results = [(await managed.call(f"{name}:work", {})).text for name in "ab"]
            shown = [*results, repr(managed.status()), repr(settings), caplog.text]

    assert manner == "gone" or CANARY in made.asked[0][0]
    assert not [text for text in shown if CANARY in text]
