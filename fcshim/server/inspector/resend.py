"""Sends a captured request again, with another dialect or model, as the page asks.

Rule: the request passes all that a client's request passes: checks, limits, log and observers. The client's credentials
were never stored, so it is sent with the key of the page's own request, and with the operator's key upstream.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta

from fcshim.config import NOT_NAMED, Config
from fcshim.errors import RequestError
from fcshim.parse.dialects import AUTO, DIALECTS
from fcshim.server.client_connection import ClientConnection, Message, Receive, Scope, Send
from fcshim.server.inspector.capture import CapturedRequest, CaptureRing
from fcshim.server.relay import with_model_name

MAX_RESEND_BODY = 10_000
_MAX_RUNNING = 4
"""Requests that are sent again at the same time: the page shows one."""
_KEY_HEADERS = frozenset({b"authorization", b"host"})
"""Headers of the page's request that the new one gets."""
_CLIENT_HEADERS = frozenset({"anthropic-version", "anthropic-beta"})
"""Headers of the client's request that decide what its body means."""

Serve = Callable[[Scope, Receive, Send], Awaitable[None]]
"""Serves one ASGI request: the application."""


class ResendRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What differs from the captured request; empty for nothing."""

    dialect: str = ""
    """A name, never a path: this comes from a browser."""
    model: Annotated[str, Meta(max_length=500)] = ""


class Resender:
    """Sends captured requests again."""

    def __init__(self, config: Config, ring: CaptureRing) -> None:
        self._ring = ring
        self._has_upstream = config.upstream != NOT_NAMED or bool(config.upstreams)
        self._running: set[asyncio.Task[None]] = set()

    async def send(self, connection: ClientConnection, capture: CapturedRequest, body: bytes, serve: Serve) -> str:
        """Begin to serve the request again; return the id under which it is captured. Raises `RequestError`."""
        asked = _decode(body)
        if not self._has_upstream:
            raise RequestError("no upstream is named; start fcshim inspect with --upstream URL", status=409)
        if not capture.body or capture.withheld:
            raise RequestError("its body was not kept, so it cannot be sent again", status=409)
        if len(self._running) >= _MAX_RUNNING:
            raise RequestError(f"{_MAX_RUNNING} requests that were sent again still run", status=429)
        scope, sent = _scope(connection, capture, asked), _body(capture, asked.model)
        task = asyncio.create_task(_serve(serve, scope, sent), name="resend")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await asyncio.sleep(0)  # observers are notified before the request waits for anything
        found = (each.id for each in self._ring.newest_first() if each.resent_from == capture.id)
        return next(found, "")


async def _serve(serve: Serve, scope: Scope, body: bytes) -> None:
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        message = next(messages, None)
        if message is None:
            await asyncio.Event().wait()  # the page never disconnects: it reads what is captured
        assert message is not None
        return message

    async def send(message: Message) -> None:
        """Drop the message: the capture has it."""

    await serve(scope, receive, send)


def _decode(body: bytes) -> ResendRequest:
    try:
        asked = msgspec.json.decode(body, type=ResendRequest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"expected a dialect and a model: {error}") from None
    if asked.dialect not in {"", AUTO, *DIALECTS}:  # never a path: this comes from a browser
        raise RequestError(f"dialect: expected one of {', '.join([AUTO, *DIALECTS])}", param="dialect")
    return asked


def _body(capture: CapturedRequest, model: str) -> bytes:
    if not model or _names_model(capture):
        return capture.body
    try:
        return with_model_name(capture.body, model)
    except (msgspec.DecodeError, RecursionError):
        raise RequestError("its body is no JSON object, so its model cannot be changed", status=409) from None


def _names_model(capture: CapturedRequest) -> bool:
    """Return whether the model is named in the path, as in Gemini's API."""
    return f"/models/{capture.model}:" in capture.path


def _scope(connection: ClientConnection, capture: CapturedRequest, asked: ResendRequest) -> Scope:
    path = capture.path
    if asked.model and _names_model(capture):
        path = path.replace(f"/models/{capture.model}:", f"/models/{asked.model}:")
    kept = [(name.encode(), value.encode()) for name, value in capture.headers if name in _CLIENT_HEADERS]
    keys = [pair for pair in connection.headers if pair[0] in _KEY_HEADERS]
    return {
        "type": "http",
        "method": capture.method,
        "path": path,
        "raw_path": quote(path, safe="/:").encode(),
        "query_string": b"alt=sse" if "alt=sse" in capture.query else b"",
        "headers": [(b"content-type", b"application/json"), *kept, *keys],
        "server": (connection.own_address, None),
        "fcshim.dialect": asked.dialect,
        "fcshim.resent_from": capture.id,
    }
