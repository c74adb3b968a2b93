"""The codec interface: one provider's wire format, in both directions, without I/O.

Rule: a codec is stateless; each exchange creates its own decoder (upstream bytes to events) and encoder (events to
client bytes). Every event is paired with the index of its choice, which is 0 unless the client asked for several.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from fcshim.codecs.body_fields import BodyFields, FieldRules
from fcshim.codecs.framing import write_data
from fcshim.codecs.json_text import DEFAULT_DECODER_LIMITS, DEFAULT_LIMITS, DecoderLimits, RequestLimits
from fcshim.codecs.model_info import ModelInfo
from fcshim.codecs.prompt_progress import PromptProgress
from fcshim.codecs.reply_store import DocumentStore, Lookups
from fcshim.codecs.upstream_errors import read_error
from fcshim.errors import FcshimError
from fcshim.events import Event, id_source
from fcshim.messages import Request
from fcshim.reply import Reply


class UpstreamRequest(msgspec.Struct, frozen=True):
    """A request ready to send: the path below the upstream's base URL, the body, and the headers that the API requires.

    A path that begins with `//` is relative to the server's root instead of the versioned base URL.
    """

    path: str
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    follow_up: "Callable[[bytes], FollowUp] | None" = None
    """Builds the second request from the body of the first response; only the second response is the reply.

    Raises `UpstreamError` where the first response is unusable.
    """


class FollowUp(msgspec.Struct, frozen=True):
    """The second request of a two-step exchange; `body_prefix` is prepended to the response body before decoding."""

    request: UpstreamRequest
    body_prefix: bytes = b""


class RequestTarget(msgspec.Struct, frozen=True):
    """The target of a client's request, for APIs that put parameters in the path or query instead of the body."""

    path: str = ""
    query: str = ""
    path_params: dict[str, str] = {}
    """Values of the named parameters in the route's path."""
    reply_store: DocumentStore | None = None
    """Earlier replies, for APIs whose clients refer to them."""
    stored_upstream: bool = False
    """Whether the upstream stores earlier replies itself: references to them are not resolved here."""


NO_TARGET = RequestTarget()


class ReplyIdentity(msgspec.Struct, frozen=True):
    """Metadata of a reply: its id, its creation time (Unix seconds), and the model name that the client used."""

    id: str
    created: int
    model: str
    clock: Callable[[], float] | None = None
    """Returns the seconds since the request arrived; without it durations are reported as 0."""
    reply_store: DocumentStore | None = None
    """Where replies are stored that the client may refer to later."""

    def elapsed(self) -> float:
        """Return the seconds since the request arrived, 0 without a clock."""
        return self.clock() if self.clock is not None else 0.0


class Decoder(Protocol):
    """Decodes one upstream reply; its bytes may be split anywhere."""

    @property
    def ended(self) -> bool:
        """Whether the reply has ended by its API's own last event, so that no later byte changes it."""
        ...

    @property
    def progress(self) -> PromptProgress | None:
        """How far the server has read the prompt, if it has said so."""
        ...

    def feed(self, data: bytes) -> list[tuple[int, Event]]:
        """Take the next bytes of the body; return the events that they complete, each with its choice index."""
        ...

    def close(self) -> list[tuple[int, Event]]:
        """Handle the end of the body; return the remaining events, an `Error` for a reply that is incomplete."""
        ...


class Encoder(Protocol):
    """Encodes one streamed reply for the client."""

    content_type: str
    """The media type of the stream."""

    def encode(self, choice: int, events: Sequence[Event]) -> bytes:
        """Return the bytes for these events of one choice."""
        ...

    def close(self) -> bytes:
        """Return the bytes that end the stream cleanly; empty after an `Error` event."""
        ...

    def ping(self, note: str = "") -> bytes:
        """Return bytes that keep the connection alive and that every client of this API ignores.

        `note`, one line, is for people who read the stream; left out where the API has no comments.
        """
        ...


class UpstreamCodec(Protocol):
    """The upstream half of a wire format: writes requests, reads replies."""

    def encode_request(self, request: Request) -> UpstreamRequest:
        """Write a request for the upstream; it always asks for a stream with usage."""
        ...

    def decoder(self) -> Decoder:
        """Create a decoder for one upstream reply, which is a stream or one JSON body."""
        ...


class Codec(ABC):
    """One provider's wire format: the client half and the upstream half.

    A subclass assigns the functions of its package to the members that are only declared here. `new_id` creates ids
    for native calls that come without one.
    """

    name: str
    reply_prefix: str
    """The prefix of reply ids."""
    call_prefix = "call_"
    """The prefix of call ids."""
    field_rules: FieldRules
    """The fields of a request's body that `decode_request` reads, and their limits."""
    models_path = "/models"
    """The path at which an upstream of this API lists its models."""

    encode_request: Callable[[Request], UpstreamRequest]
    """Writes a request for the upstream; see `UpstreamCodec`."""
    encoder: Callable[[Request, ReplyIdentity], Encoder]
    """Creates an encoder for one streamed reply to a request."""
    encode_reply: Callable[[Request, ReplyIdentity, Sequence[Reply]], bytes]
    """Writes a reply that is not streamed, from one `Reply` per choice. Raises the error of a reply that ended with
    one.
    """
    encode_error: Callable[[FcshimError], bytes]
    """Writes an error body in this API's form (its HTTP status is `error.status`)."""
    decode_error: Callable[[int, Mapping[str, str], bytes], FcshimError] = staticmethod(read_error)
    """Reads an upstream's error response, whatever its body is (this API's form, HTML, nothing)."""
    decode_models: Callable[[bytes], list[str]]
    """Reads the names in an upstream's list of models; empty if the body is not such a list."""

    def __init__(
        self,
        *,
        request_limits: RequestLimits = DEFAULT_LIMITS,
        decoder_limits: DecoderLimits = DEFAULT_DECODER_LIMITS,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._request_limits = request_limits
        self._decoder_limits = decoder_limits
        self._new_id = new_id or id_source(self.call_prefix)

    @abstractmethod
    def decode_request(self, body: bytes | BodyFields, target: RequestTarget = NO_TARGET) -> Request:
        """Read a client's request. Raises `RequestError`."""

    @abstractmethod
    def decoder(self) -> Decoder:
        """Create a decoder for one upstream reply, which is a stream or one JSON body."""

    def relayed_body(self, body: bytes) -> bytes:
        """Return the body of a request without tools that is relayed, as every upstream of this API takes it."""
        return body

    def relayed_reply(self, body: bytes) -> bytes:
        """Return the body of a relayed reply that is one document, with all fields that strict clients require."""
        return body

    def encode_stream_error(self, error: FcshimError) -> bytes:
        """Write an error that is inserted between two events of a running stream of this API."""
        return write_data(self.encode_error(error))

    def decode_count(self, body: bytes | BodyFields, target: RequestTarget) -> Request:
        """Read a request to count tokens. Raises `RequestError`."""
        return self.decode_request(body, target)


class TokenCounter(Protocol):
    """Implemented by APIs that have an endpoint for counting the tokens of a request."""

    def decode_count(self, body: bytes | BodyFields, target: RequestTarget) -> Request:
        """Read a request to count tokens. Raises `RequestError`."""
        ...

    def encode_count(self, tokens: int) -> bytes:
        """Write the number of tokens as a response body."""
        ...


class RequestRecaller(Protocol):
    """Implemented by APIs whose clients refer to earlier replies by id."""

    def recall_request(self, body: bytes | BodyFields, target: RequestTarget) -> Lookups[Request]:
        """Read a client's request, and look up what it refers to. Raises `RequestError`."""
        ...


class ModelCatalogue(Protocol):
    """Implemented by APIs that list models in a format of their own."""

    def encode_models(self, names: Sequence[str], created: int) -> bytes:
        """Write the list of all models."""
        ...

    def encode_model(self, name: str, created: int) -> bytes:
        """Write the description of one model."""
        ...


class ModelDescriber(Protocol):
    """Implemented by APIs that describe models beyond their names."""

    def described_name(self, target: RequestTarget, body: bytes) -> str | None:
        """Return the name of the model that the request asks about; None for a list. Raises `RequestError`."""
        ...

    def describe(self, target: RequestTarget, body: bytes, models: Sequence[ModelInfo]) -> bytes:
        """Describe these models, or the one that the request asks about. Raises `RequestError`."""
        ...


class LocalResponder(Protocol):
    """Implemented by APIs with endpoints that are served without asking the upstream."""

    def respond(self, method: str, target: RequestTarget, body: bytes) -> bytes:
        """Return the response body. Raises `RequestError`."""
        ...
