"""What may stand between a client's codec and the upstream's: the shim, or the names of native tools.

Rule: a request goes through it once, on the way there; every choice of the reply has a stream of its own on the way
back.
Neighbours: `shim` and `native` are stages, the exchange drives them.
"""

from typing import Protocol

from fcshim.codecs.base import UpstreamCodec
from fcshim.events import Event
from fcshim.messages import Request


class StageStream(Protocol):
    """The way back for one choice. Exactly one `Stop` or `Error` ends it."""

    @property
    def finished(self) -> bool:
        """Whether the reply ended before the upstream did, which may then be cancelled."""
        ...

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; give the client's."""
        ...

    def read(self, text: str) -> list[Event]:
        """Take the upstream's next piece of text, as `feed` does; not to be called once the choice has ended."""
        ...

    def close(self) -> list[Event]:
        """The upstream has ended; give what is held back."""
        ...


class Stage(Protocol):
    """The way of one request."""

    constraint: str
    """What tells the constraint apart that holds the reply to calls; empty where there is none."""

    @property
    def codec(self) -> UpstreamCodec | None:
        """By what the upstream is asked, where that is not its API's codec."""
        ...

    def prepare(self) -> Request:
        """Give the request for the upstream."""
        ...

    def stream(self) -> StageStream:
        """Make the way back for one choice."""
        ...
