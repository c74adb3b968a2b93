"""What a codec is: one provider's wire format, both directions, without I/O.

Rule: a codec is stateless; each exchange makes its own decoder (upstream's bytes to events) and encoder (events to
client's bytes). Events travel with the index of their choice, 0 unless the client asked for several.
Neighbours: `exchange` drives codecs; `sse` splits what comes in.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from fcshim.codecs.reply_store import ReplyStore
from fcshim.errors import FcshimError
from fcshim.events import Event
from fcshim.messages import Request
from fcshim.reply import Reply


class UpstreamRequest(msgspec.Struct, frozen=True):
    """A request ready for the upstream: the path below its base URL, the body, and headers that the API demands.

    A path that begins with `//` stands beside the API.
    """

    path: str
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    follow_up: "Callable[[bytes], FollowUp] | None" = None
    """Makes, of the whole answer, what is asked next: only that is replied to. Raises `UpstreamError`."""


class FollowUp(msgspec.Struct, frozen=True):
    """What follows a question that was asked first; `lead` is what the reply's body is taken to begin with."""

    request: UpstreamRequest
    body_prefix: bytes = b""


class RequestTarget(msgspec.Struct, frozen=True):
    """The address that a request came to, for what an API says there instead of in the body."""

    path: str = ""
    query: str = ""
    path_params: dict[str, str] = {}
    """The named parts of the route's path."""
    reply_store: ReplyStore | None = None
    """Earlier replies, for APIs whose clients refer to them."""
    stored_upstream: bool = False
    """Whether the upstream remembers earlier replies instead: what is referred to is not looked for."""


NO_TARGET = RequestTarget()


class ReplyIdentity(msgspec.Struct, frozen=True):
    """What a reply is called: its id, its creation time (Unix seconds), the model name the client used."""

    id: str
    created: int
    model: str
    clock: Callable[[], float] | None = None
    """Gives the seconds since the request came; without it no durations are told."""
    reply_store: ReplyStore | None = None
    """Where a reply is kept that its client may refer to."""

    def elapsed(self) -> float:
        """Give the seconds since the request came, 0 where nobody knows."""
        return self.clock() if self.clock is not None else 0.0


class Decoder(Protocol):
    """Reads one upstream reply, in pieces cut anywhere."""

    def feed(self, data: bytes) -> list[tuple[int, Event]]:
        """Take the next bytes of the body; give the events that they complete, each with its choice."""
        ...

    def close(self) -> list[tuple[int, Event]]:
        """The body has ended; give what is left: an `Error` event where it ended too early."""
        ...


class Encoder(Protocol):
    """Writes one streamed reply for the client."""

    content_type: str
    """The media type of the stream."""

    def encode(self, choice: int, events: Sequence[Event]) -> bytes:
        """Give the bytes for these events of one choice."""
        ...

    def close(self) -> bytes:
        """Give the bytes that end a stream cleanly; nothing after an `Error` event."""
        ...

    def ping(self) -> bytes:
        """Give bytes that keep the connection alive and that every client of this API ignores."""
        ...


class UpstreamCodec(Protocol):
    """The half of a wire format that asks an upstream."""

    def encode_request(self, request: Request) -> UpstreamRequest:
        """Write a request for the upstream; it always asks for a stream, with usage."""
        ...

    def decoder(self) -> Decoder:
        """Make a reader for one upstream reply (streamed, or one whole JSON body)."""
        ...


class Codec(UpstreamCodec, Protocol):
    """One provider's wire format, both halves."""

    name: str
    reply_prefix: str
    """What the ids of its replies begin with."""
    call_prefix: str
    """What the ids of its calls begin with."""
    models_path: str
    """Where an upstream of this API lists its models."""

    def decode_request(self, body: bytes, target: RequestTarget = NO_TARGET) -> Request:
        """Read a client's request. Raises `RequestError`."""
        ...

    def encoder(self, request: Request, identity: ReplyIdentity) -> Encoder:
        """Make a writer for one streamed reply to this request."""
        ...

    def encode_reply(self, request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
        """Write a whole reply, one `Reply` per choice."""
        ...

    def encode_error(self, error: FcshimError) -> bytes:
        """Write an error body in this API's form (its HTTP status is `error.status`)."""
        ...

    def encode_stream_error(self, error: FcshimError) -> bytes:
        """Write an error into a stream of this API that is under way, between two of its events."""
        ...

    def decode_error(self, status: int, headers: Mapping[str, str], body: bytes) -> FcshimError:
        """Read an upstream's error answer, whatever it is (this API's form, HTML, nothing)."""
        ...

    def decode_models(self, body: bytes) -> list[str]:
        """Read the names in an upstream's list of models; none where it is no such list."""
        ...


class TokenCounter(Protocol):
    """What an API adds that counts the tokens of a request."""

    def decode_count(self, body: bytes, target: RequestTarget) -> Request:
        """Read a request whose tokens are to be counted. Raises `RequestError`."""
        ...

    def encode_count(self, tokens: int) -> bytes:
        """Write the count."""
        ...


class ModelCatalogue(Protocol):
    """What an API adds that lists models in a form of its own."""

    def encode_models(self, names: Sequence[str], created: int) -> bytes:
        """Write the list of all models."""
        ...

    def encode_model(self, name: str, created: int, target: RequestTarget) -> bytes:
        """Write what there is to say about one model."""
        ...


class ModelDescriber(Protocol):
    """What an API adds that tells more of models than their names, asked by a body or by none."""

    def describe(self, target: RequestTarget, body: bytes, names: Sequence[str], listed: bytes) -> bytes:
        """Tell of the models `names`; `listed` is what the upstream's list says. Raises `RequestError`."""
        ...


class LocalResponder(Protocol):
    """What an API adds that is answered here, without the upstream."""

    def respond(self, method: str, target: RequestTarget, body: bytes) -> bytes:
        """Give the answer's body. Raises `RequestError`."""
        ...
