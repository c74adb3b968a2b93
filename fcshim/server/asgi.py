"""Types of the ASGI interface, and access to a header.

Rule: plain ASGI, without a framework and without middleware between a stream and its client.
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
    """Return the first value of a header, by its lower-case name; empty if it is missing."""
    return next((value for key, value in headers if key == name), b"")
