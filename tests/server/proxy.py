"""Runs fcshim's own server in the test's event loop, with clients for it: httpx, and a bare socket.

Rule: the server is the one that `fcshim serve` runs, on its own port, without signal handling.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx

from fcshim.config import Config
from fcshim.server.app import App, create_app
from fcshim.server.reload import ReloadableApp
from fcshim.server.run import ProxyServer, listen, listen_for_inspector

TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
CALL = '<function_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</function_call>'
CHAT = "/v1/chat/completions"
LIMIT = 60.0
"""Seconds that a test may use one server: a stream that never ends fails its test instead of blocking the run."""


class QuickServer(ProxyServer):
    """A server that reports when it has started, and exits on request at once instead of at uvicorn's next tick."""

    def __init__(self, config: Config, app: App | ReloadableApp | None = None) -> None:
        super().__init__(config, app or create_app(config))
        self.ready = asyncio.Event()
        self.exit_requested = asyncio.Event()

    async def main_loop(self) -> None:
        self.ready.set()
        await self.exit_requested.wait()


@contextlib.asynccontextmanager
async def running_proxy(upstream: str, *, limit: float = LIMIT, **settings: object) -> AsyncIterator[str]:
    """Serve fcshim in front of `upstream`; yield its URL without a path. The block may take `limit` seconds."""
    config = Config(upstream=upstream, port=0, **{"drain_timeout": 0.0, **settings})
    async with running_app(create_app(config), limit=limit) as url:
        yield url


@contextlib.asynccontextmanager
async def running_inspector(upstream: str, **settings: object) -> AsyncIterator[tuple[str, str]]:
    """Serve fcshim with its inspector on a port of its own; yield the URL of the proxy and that of the inspector."""
    config = Config(upstream=upstream, port=0, inspect_port=0, inspect=True, **{"drain_timeout": 0.0, **settings})
    with listen_for_inspector(config) as listener:
        port = listener.getsockname()[1]
        async with running_app(create_app(config, inspector_port=port), listener) as url:
            yield url, f"http://{config.host}:{port}"


@contextlib.asynccontextmanager
async def running_app(app: App, *more: socket.socket, limit: float = LIMIT) -> AsyncIterator[str]:
    """Serve an application on a port of its own, and on `more` listeners; yield its URL without a path."""
    with listen(app.config) as listener:
        server = QuickServer(app.config, app)
        task = asyncio.create_task(server.serve(sockets=[listener, *more]))
        await server.ready.wait()
        try:
            async with asyncio.timeout(limit):
                yield f"http://{app.config.host}:{listener.getsockname()[1]}"
        finally:
            server.request_exit()
            server.exit_requested.set()
            await task


def http_client(url: str, **options: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, trust_env=False, timeout=20, limits=httpx.Limits(), **options)


def chat_body(*, stream: bool = True, tools: bool = True, **fields: object) -> dict:
    """Make the body of a chat request."""
    offered = {"tools": TOOLS} if tools else {}
    return {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": stream, **offered, **fields}


async def post_chat(url: str, *, headers: dict | None = None, **fields: object) -> httpx.Response:
    async with http_client(url) as client:
        return await client.post(CHAT, json=chat_body(**fields), headers=headers)


def stream_documents(response: httpx.Response) -> list:
    """Read a stream: its JSON documents, and the word DONE if it ended cleanly."""
    payloads = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line.startswith("data: ")]
    return ["DONE" if payload == "[DONE]" else json.loads(payload) for payload in payloads]


def streamed_text(documents: list, choice: int = 0) -> str:
    deltas = [
        each["delta"]
        for document in documents
        if document != "DONE"
        for each in document.get("choices", ())
        if each["index"] == choice
    ]
    return "".join(delta.get("content") or "" for delta in deltas)


@contextlib.asynccontextmanager
async def raw_connection(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a bare connection."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def post_request(url: str, body: dict | bytes, path: str = CHAT, *headers: str) -> bytes:
    """Write the bytes of a POST request."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {urlsplit(url).netloc}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + content


async def send_raw(url: str, request: bytes) -> bytes:
    """Send raw bytes; return everything that arrives until the proxy closes the connection, which it must."""
    async with raw_connection(url) as (reader, writer):
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 60)
