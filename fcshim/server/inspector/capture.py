"""Captures requests: the chunks and events of their replies, in a ring of limited size.

Rule: blocks of reads are only referenced; everything else happens when a page asks. Credentials are masked before a
request's texts are stored. A reply that repeats one is masked whenever it is shown: searching every reply would
cost as much as decoding it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import msgspec

from fcshim.codecs.base import Codec, UpstreamCodec
from fcshim.config import Config, ModelConfig
from fcshim.config.credentials import CredentialMask
from fcshim.dispatch import MIN_SIZE
from fcshim.events import Usage
from fcshim.messages import Request, Tool, as_tools
from fcshim.pipeline.attempt import Batch
from fcshim.pipeline.exchange import Exchange
from fcshim.server.inspector.conversations import Conversations, last_results, last_words
from fcshim.server.inspector.decoded_reply import DecodedReply, decode_reply, masked_reply, relayed_reply
from fcshim.server.kept_replies import CHUNK_BYTES, ChunkLog
from fcshim.server.observation import Reads, RequestObserver
from fcshim.server.observed_request import ObservedCall, ObservedRequest
from fcshim.server.request_log import config_secrets

_CAPTURE_BYTES = 2_000
_MAX_SUBSCRIBERS = 16
"""Open pages; each holds a connection and a set of ids."""


class AttemptCapture:
    """One request to the upstream and its reply. Times are of the monotonic clock."""

    def __init__(self, reason: str, log: ChunkLog, *, path: str, codec: UpstreamCodec, native: bool) -> None:
        self.started_at = time.monotonic()
        self.reason = reason
        self.path = path
        self.body = b""
        self.codec = codec
        self.native = native
        self.log = log
        self.error = ""
        self.front = ""
        """Which text at the front of the prompt varies, so that much is read again."""
        self.defects: tuple[str, ...] = ()
        """The kinds of the defects of its reply (`AttemptDefect.kind`)."""
        self.defect = ""
        """What is wrong with its reply, as a phrase."""

    @property
    def first_at(self) -> float:
        """When the first chunk came; 0 if none has."""
        return self.log.first_at


class _RingRoom:
    """The bytes of the ring that one capture takes. No reference to the capture: a cycle would outlive the limit."""

    def __init__(self, ring: "CaptureRing") -> None:
        self._ring = ring
        self.size = 0

    def charge(self, size: int) -> bool:
        """Count bytes to be kept; return whether the ring has room for them."""
        ring = self._ring
        if self.size + size > ring.limit // 2:  # one huge reply must not drop all the others
            return False
        if ring.used + size > ring.limit and not ring.make_room(size):
            return False
        self.size += size
        ring.used += size
        return True


class CapturedRequest:
    """One request from a client, all attempts for it, and the response. Times are of the monotonic clock."""

    def __init__(self, ring: "CaptureRing", number: int, codec: Codec) -> None:
        self.id = str(number)
        self.codec = codec
        self.mask = CredentialMask(ring.secrets)
        self.room = _RingRoom(ring)
        self.method = self.path = self.query = self.upstream = self.model = ""
        self.headers: list[tuple[str, str]] = []
        self.time = self.started_at = self.ended_at = 0.0
        """`time` is Unix time."""
        self.is_timed = True
        """Whether the times of chunks and attempts are known; a record has none."""
        self.body = b""
        self.streamed = False
        self.words = ""
        """What the user said last."""
        self.results: list[str] = []
        """The tools whose results the request brings."""
        self.conversation = 0
        self.model_config: ModelConfig | None = None
        self.tools: tuple[Tool, ...] = ()
        self.attempts: list[AttemptCapture] = []
        self.calls: list[ObservedCall] = []
        self.usage: Usage | None = None
        self.status = 0
        self.sent = ChunkLog(self.room.charge, written=True)
        self.error = ""
        self.cut_prompt = self.varying_front = ""
        """What is said of the prompt of a request that was relayed; else the attempt has it."""
        self.withheld = ""
        self.resent_from = ""
        """The id of the request that was sent again by this one."""

    @property
    def is_running(self) -> bool:
        """Whether the response has not ended."""
        return not self.ended_at

    def catch_up(self) -> None:
        """Take what is not taken yet, if the request still runs. Call it on the event loop."""

    def keep_request(self, request: Request, body: bytes, conversations: Conversations) -> None:
        """Keep the decoded request, and its body without credentials, which the mask has learned."""
        self.words = self.mask.mask_text(last_words(request.messages))
        self.results = [self.mask.mask_text(name) for name in last_results(request.messages)]
        self.conversation = conversations.number_of(request.messages)
        self.body, self.tools = body, self.masked_tools(request.tools)

    def decoded(self, attempt: AttemptCapture) -> list[DecodedReply]:
        """Return the reply of an attempt, each choice of it, without credentials."""
        return [masked_reply(reply, self.mask) or reply for reply in decode_reply(attempt.codec, attempt.log)]

    def received(self) -> list[DecodedReply]:
        """Return the reply that the client got, each choice of it, without credentials."""
        if self.status != 200 or not self.model or not self.sent.data:
            return []
        replies = relayed_reply(self.codec.decoder(), self.sent.chunks())
        return [masked_reply(reply, self.mask) or reply for reply in replies]

    def repeats_credentials(self) -> bool:
        """Return whether the reply spells a credential of the request, also across the borders of its chunks."""
        replies = [reply for attempt in self.attempts for reply in decode_reply(attempt.codec, attempt.log)]
        if not self.attempts:
            replies = relayed_reply(self.codec.decoder(), self.sent.chunks())
        return any(masked_reply(reply, self.mask) is not None for reply in replies)

    def response_text(self) -> str:
        """Return what the client got, without credentials; a stream may hold one in pieces, so it is all or nothing."""
        data = self.sent.data
        if self.mask.is_needed and (self.mask.mask(data) != data or self.repeats_credentials()):
            return "(not shown: the reply repeats a credential of the request)"
        return data.decode("utf-8", "replace")

    def masked_tools(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Return tools without credentials."""
        data = msgspec.json.encode(tools)
        masked = self.mask.mask(self.mask.body(data))
        return tools if masked is data else as_tools(msgspec.json.decode(masked, type=list[Tool]))


class Capture(CapturedRequest, RequestObserver):
    """A request that is captured while it runs."""

    wants_reads = wants_writes = True

    def __init__(self, ring: "CaptureRing", number: int, observed: ObservedRequest) -> None:
        super().__init__(ring, number, observed.codec)
        connection = observed.connection
        self._ring = ring
        self._observed: ObservedRequest | None = observed
        self.method, self.path = connection.method, connection.path
        self.resent_from = connection.resent_from
        self.upstream = ring.upstream
        self.headers = self.mask.headers(connection.headers)
        self.query = self.mask.query(connection.query)
        self.time, self.started_at = observed.began_at, observed.started_at
        self.calls, self.usage = observed.calls, observed.usage

    def on_request(self, request: Request, body: bytes, model: ModelConfig) -> None:
        """Keep the decoded request and its body, without credentials."""
        self.model, self.streamed, self.model_config = self.mask.mask_text(request.model), request.stream, model
        masked = self.mask.mask(self.mask.body(body))
        if self.mask.overflowed:
            self.withheld = "it has too many different credentials, or values"
        elif self.room.charge(2 * len(masked)):
            self.keep_request(request, masked, self._ring.conversations)

    def on_tools(self, tools: tuple[Tool, ...]) -> None:
        """Keep the tools that the model is offered, without credentials."""
        if not self.withheld:
            self.tools = self.masked_tools(tools)

    def begin_attempt(self, exchange: Exchange, reason: str, *, native: bool) -> None:
        """Keep the request that is sent upstream."""
        sent, log = exchange.attempt.upstream_request, ChunkLog(self.room.charge)
        attempt = AttemptCapture(
            self.mask.mask_text(reason), log, path=sent.path, codec=exchange.attempt.codec, native=native
        )
        self.attempts.append(attempt)
        self._name_upstream()
        if self.withheld:
            return
        if len(sent.body) < MIN_SIZE:
            attempt.body = self._masked_body(sent.body)
        else:  # other streams continue; the prompt is shown once it is masked
            asyncio.get_running_loop().run_in_executor(None, self._mask_prompt, attempt, sent.body)

    def fail_attempt(self, message: str) -> None:
        """Keep why the last attempt failed."""
        self.attempts[-1].error = self.mask.mask_text(message)

    def lose_prompt(self, message: str) -> None:
        """Keep that the upstream has read only a part of the prompt."""
        masked = self.mask.mask_text(message)
        if self.attempts:
            self.attempts[-1].error = masked
        else:
            self.cut_prompt = masked

    def vary_prompt(self, message: str) -> None:
        """Keep that text at the front of the prompt varies."""
        masked = self.mask.mask_text(message)
        if self.attempts:
            self.attempts[-1].front = masked
        else:
            self.varying_front = masked

    def end_attempt(self, batch: Batch) -> None:
        """Keep the last events of an attempt, which have no bytes, and what is wrong with its reply."""
        if not self.attempts:
            return
        if batch:
            self.attempts[-1].log.add_last(batch)
        if self._observed is not None:
            attempt = self._observed.attempts[-1].attempt
            self.attempts[-1].defects = attempt.parse_record.defects
            self.attempts[-1].defect = self.mask.mask_text(attempt.defect)

    def on_reads(self, reads: Reads) -> None:
        """Keep some reads of the attempt, and what the client got of them."""
        if self.attempts[-1].log.add(reads):
            self.sent.share(reads)
        else:
            self.sent.is_full = True

    def on_relayed(self, reads: Reads) -> None:
        """Keep some reads of a reply that is relayed."""
        self.sent.add(reads)

    def on_write(self, at: float, data: bytes) -> None:
        """Keep another write of the response."""
        self.sent.add_write(at, data)

    def on_status(self, status: int) -> None:
        """Keep the status."""
        self.status = status

    def end(self, status: int, error: str) -> None:
        """Handle the end of the response, and release what is not masked."""
        self.status, self.error, self.ended_at = status, self.mask.mask_text(error), time.monotonic()
        if self._observed is not None:
            self._name_upstream()
            self.usage, self._observed = self._observed.usage, None
        if self.withheld:
            self.sent, self.attempts = ChunkLog(self.room.charge, written=True), []
        self.room.charge(len(self.calls) * CHUNK_BYTES)
        self._ring.end(self)

    def catch_up(self) -> None:
        """Take the reads of the unfinished block, if the request still runs. Call it on the event loop."""
        observers = None if self._observed is None else self._observed.connection.observers
        if observers is not None:
            observers.catch_up()

    def _name_upstream(self) -> None:
        if self._observed is not None:
            self.upstream = self._observed.upstream or self.upstream

    def _mask_prompt(self, attempt: AttemptCapture, body: bytes) -> None:
        attempt.body = self._masked_body(body)

    def _masked_body(self, body: bytes) -> bytes:
        masked = self.mask.mask(self.mask.body(body))
        return masked if self.room.charge(len(masked)) else b""


class Subscriber:
    """One open page: the captures that changed since its last message, and a flag that wakes its stream."""

    def __init__(self) -> None:
        self.changed: dict[str, None] = {}
        self.wake = asyncio.Event()

    def notify(self, capture_id: str) -> None:
        """Record a change."""
        self.changed[capture_id] = None
        self.wake.set()


class CaptureRing:
    """The last captures, up to `limit` bytes in all, running requests included.

    Implements `observers.ServerObserver`.
    """

    def __init__(self, config: Config) -> None:
        self.limit = config.inspect_bytes
        self.used = 0
        self.secrets = config_secrets(config)
        self.upstream = "" if config.upstreams else urlsplit(config.upstream).netloc.rpartition("@")[2]
        self.conversations = Conversations()
        self._captures: dict[str, CapturedRequest] = {}
        self._ended: deque[CapturedRequest] = deque()
        self._count = 0
        self._subscribers: set[Subscriber] = set()

    def begin(self, observed: ObservedRequest) -> Capture | None:
        """Capture a request for a reply."""
        if observed.operation != "reply":
            return None
        self._count += 1
        capture = Capture(self, self._count, observed)
        capture.room.charge(_CAPTURE_BYTES)
        self._captures[capture.id] = capture
        self._notify(capture)
        return capture

    def close(self) -> None:
        """Do nothing: captures live in memory only."""

    def keep(self, make: Callable[["CaptureRing", int], CapturedRequest]) -> CapturedRequest:
        """Keep a request that has ended, as `make` returns it for a number."""
        self._count += 1
        captured = make(self, self._count)
        self._captures[captured.id] = captured
        self.end(captured)
        return captured

    def end(self, capture: CapturedRequest) -> None:
        """Handle the end of a request."""
        self._ended.append(capture)
        if self.used > self.limit:
            self.make_room(0)
        self._notify(capture)

    def make_room(self, size: int) -> bool:
        """Drop the oldest captures that have ended; return whether `size` more bytes fit then.

        A tenth is freed at once, so that a full ring does not drop captures at each chunk.
        """
        while self._ended and self.used + size > self.limit - self.limit // 10:
            oldest = self._ended.popleft()
            self.used -= oldest.room.size
            del self._captures[oldest.id]
        return self.used + size <= self.limit

    def newest_first(self) -> Sequence[CapturedRequest]:
        """Return all captures, the newest first."""
        return list(reversed(self._captures.values()))

    def find(self, capture_id: str) -> CapturedRequest | None:
        """Return a capture by its id."""
        return self._captures.get(capture_id)

    def subscribe(self) -> Subscriber | None:
        """Add a subscriber; None if there are too many."""
        if len(self._subscribers) >= _MAX_SUBSCRIBERS:
            return None
        subscriber = Subscriber()
        self._subscribers.add(subscriber)
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Remove a subscriber."""
        self._subscribers.discard(subscriber)

    def _notify(self, capture: CapturedRequest) -> None:
        for subscriber in self._subscribers:
            subscriber.notify(capture.id)
