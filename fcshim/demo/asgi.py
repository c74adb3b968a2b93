"""The parts of ASGI that the demo's applications use."""

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import TypeAlias

import msgspec

from fcshim.errors import RequestError
from fcshim.events import JSON

Message: TypeAlias = MutableMapping[str, JSON]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 16 * 2**20
"""Most bytes of a request body: far more than a prompt for a context of a few thousand tokens."""


async def read_body(receive: Receive) -> bytes:
    """Read a whole request body. Raises `RequestError` if it is too large or the client disconnects."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError("the client left before its request was complete")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise RequestError(f"the request body is larger than {MAX_BODY_BYTES} bytes", status=413)
        if not message.get("more_body", False):
            return b"".join(parts)


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_start(send: Send, status: int, content_type: str) -> None:
    """Send status and headers."""
    headers = [(b"content-type", content_type.encode("latin-1"))]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def send_chunk(send: Send, body: bytes) -> None:
    """Send a part of a body. A closed connection is ignored: `wait_for_disconnect` reports it."""
    with suppress(OSError):
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def send_end(send: Send, body: bytes = b"") -> None:
    """Send the end of a body."""
    with suppress(OSError):
        await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, status: int, value: JSON) -> None:
    """Send a complete response; a value of type bytes is sent as it is, as encoded JSON."""
    await send_start(send, status, "application/json")
    await send_end(send, value if isinstance(value, bytes) else msgspec.json.encode(value))
