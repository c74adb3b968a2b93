"""What may stand between a client's codec and the upstream's: the shim, or the names of native tools.

Rule: a request goes through it once, on the way there; every choice of the reply has a stream of its own on the way
back.
Neighbours: `shim` and `native` are stages, the exchange drives them.
"""

from typing import Protocol

from fcshim.codecs.base import UpstreamCodec
from fcshim.events import Event
from fcshim.messages import Request


class TransformStream(Protocol):
    """The way back for one choice. Exactly one `Stop` or `Error` ends it."""

    @property
    def finished(self) -> bool:
        """Whether the reply ended before the upstream did, which may then be cancelled."""
        ...

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; give the client's."""
        ...

    def feed_text(self, text: str) -> list[Event]:
        """Take the upstream's next piece of text, as `feed` does; not to be called once the choice has ended."""
        ...

    def close(self) -> list[Event]:
        """The upstream has ended; give what is held back."""
        ...


class Transform(Protocol):
    """The way of one request."""

    constraint_key: str
    """What tells the constraint apart that holds the reply to calls; empty where there is none."""

    @property
    def codec(self) -> UpstreamCodec | None:
        """By what the upstream is asked, where that is not its API's codec."""
        ...

    def prepare(self) -> Request:
        """Give the request for the upstream."""
        ...

    def stream(self) -> TransformStream:
        """Make the way back for one choice."""
        ...
