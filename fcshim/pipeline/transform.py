"""The protocol between a client's codec and the upstream's: it changes the request once, then the reply's events.

Rule: one `Transform` per request, one `TransformStream` per choice of the reply.
"""

from typing import Protocol

from fcshim.codecs.base import UpstreamCodec
from fcshim.events import Event
from fcshim.messages import Request


class TransformStream(Protocol):
    """Transform the events of one choice. Exactly one `Stop` or `Error` ends them."""

    @property
    def finished(self) -> bool:
        """Whether the reply ended before the upstream did; the caller may then cancel the upstream."""
        ...

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; return the client's events."""
        ...

    def feed_text(self, text: str) -> list[Event]:
        """Do what `feed(Text(text))` does. Must not be called after the choice has ended."""
        ...

    def close(self) -> list[Event]:
        """Handle the end of the upstream's reply; return the events that were held back."""
        ...


class Transform(Protocol):
    """One request, prepared for the upstream, and how its reply is read."""

    @property
    def prepared(self) -> Request:
        """The request for the upstream."""
        ...

    @property
    def constraint_key(self) -> str:
        """Identifies the constraint in the request, to remember whether the upstream refuses it; empty without one."""
        ...

    @property
    def codec(self) -> UpstreamCodec | None:
        """The codec to use instead of that of the upstream's API; None for the API's own."""
        ...

    def stream(self) -> TransformStream:
        """Make the event transform of one choice."""
        ...
