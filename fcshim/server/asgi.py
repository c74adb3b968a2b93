"""The three ASGI types, and nothing more of a framework.

Rule: plain ASGI; no middleware between a stream and its client.
Neighbours: everything in `server`.
"""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import TypeAlias

from fcshim.events import JSON

Scope: TypeAlias = MutableMapping[str, JSON]
Message: TypeAlias = MutableMapping[str, JSON]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]


def header(headers: Headers, name: bytes) -> bytes:
    """Give the first value of a header, by its lower-case name; empty where it is missing."""
    return next((value for key, value in headers if key == name), b"")
