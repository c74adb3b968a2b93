"""What is captured of requests: references to chunks and events that exist anyway, in a ring of limited size.

Rule: a chunk costs a clock reading and a tuple; everything else happens when somebody looks. Credentials are masked
before a request's texts are stored. A reply that repeats one is masked whenever it is shown: to search every reply
would cost as much as to decode it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from fcshim.codecs.base import Codec, UpstreamCodec
from fcshim.config import Config, ModelConfig
from fcshim.config.credentials import CredentialMask
from fcshim.dispatch import MIN_SIZE, ReplySink
from fcshim.messages import Request, Tool, as_tools
from fcshim.pipeline.exchange import AnyExchange, Batch
from fcshim.server.client_connection import ClientConnection, Message, Send
from fcshim.server.inspector.decoded_reply import ChunkLog, DecodedReply, decode_reply, masked_reply, relayed_reply
from fcshim.server.request_log import config_secrets

_CHUNK_BYTES = 200
"""What one captured chunk takes beside its data: an event with its text, a time and places in lists."""
_WRITE_BYTES = 20
_SLAB = 8_192
"""Bytes that are charged at once, so that not every chunk has to be; what is left of them is given back at the end."""
_CAPTURE_BYTES = 2_000
_MAX_SUBSCRIBERS = 16
"""Open pages; each holds a connection and a set of ids."""


class AttemptCapture:
    """One request to the upstream and its reply. Times are of the monotonic clock."""

    def __init__(self, reason: str, *, path: str, codec: UpstreamCodec, native: bool) -> None:
        self.started_at = time.monotonic()
        self.reason = reason
        self.path = path
        self.body = b""
        self.codec = codec
        self.native = native
        self.log = ChunkLog()
        self.error = ""

    @property
    def first_at(self) -> float:
        """When the first chunk came; 0 if none has."""
        return self.log.times[0] if self.log.times else 0.0


class Capture:
    """One request from a client, all attempts for it, and the response. Implements `dispatch.AttemptObserver`."""

    def __init__(self, ring: "CaptureRing", number: int, connection: ClientConnection, codec: Codec) -> None:
        self._ring = ring
        self.id = str(number)
        self.method, self.path, self.codec = connection.method, connection.path, codec
        self.mask = CredentialMask(ring.secrets)
        self.headers = self.mask.headers(connection.headers)
        self.query = self.mask.query(connection.query)
        self.time = time.time()
        self.started_at = time.monotonic()
        self.ended_at = 0.0
        self.body = b""
        self.model = ""
        self.streamed = False
        self.model_config: ModelConfig | None = None
        self.tools: tuple[Tool, ...] = ()
        self.attempts: list[AttemptCapture] = []
        self.status = 0
        self.sent = ChunkLog()
        self.error = ""
        self.withheld = ""
        self.size = _CAPTURE_BYTES
        self._unused: list[Callable[[], int]] = []

    def take_request(self, request: Request, body: bytes, model: ModelConfig) -> None:
        """Keep the decoded request and its body, without credentials."""
        self.model, self.streamed, self.model_config = self.mask.mask_text(request.model), request.stream, model
        masked = self.mask.mask(self.mask.body(body))
        if self.mask.overflowed:
            self.withheld = "it has too many different credentials"
        elif self._charge(2 * len(masked)):
            self.body, self.tools = masked, self._masked_tools(request.tools)

    def begin_attempt(self, exchange: AnyExchange, reason: str, *, native: bool) -> None:
        """Keep the request that is sent upstream."""
        sent = exchange.upstream_request
        attempt = AttemptCapture(self.mask.mask_text(reason), path=sent.path, codec=exchange.codec, native=native)
        self.attempts.append(attempt)
        if self.withheld:
            return
        if len(sent.body) < MIN_SIZE:
            attempt.body = self._masked_body(sent.body)
        else:  # streams of others go on meanwhile; until then the prompt is not shown
            asyncio.get_running_loop().run_in_executor(None, self._mask_prompt, attempt, sent.body)

    def _mask_prompt(self, attempt: AttemptCapture, body: bytes) -> None:
        attempt.body = self._masked_body(body)

    def fail_attempt(self, message: str) -> None:
        """Keep why the last attempt failed."""
        if self.attempts:
            self.attempts[-1].error = self.mask.mask_text(message)

    def end_attempt(self, batch: Batch) -> None:
        """Keep the last events of an attempt, which came without bytes."""
        if self.attempts and batch and self._charge(_CHUNK_BYTES):
            log = self.attempts[-1].log
            log.append(time.monotonic(), b"")
            log.batches.append(batch)

    def reader(self, exchange: AnyExchange, sink: ReplySink) -> Callable[[bytes], bool]:
        """Return the function that takes each read of the upstream's body, and keeps it. It runs once per chunk."""
        decode, feed, clock = exchange.feed, sink.feed, time.monotonic
        log, reserve = self.attempts[-1].log, self._reserve
        buffer, keep_end, keep_time, keep_batch = log.data, log.ends.append, log.times.append, log.batches.append
        keep_data = buffer.extend
        room = 0

        def read(data: bytes) -> bool:
            nonlocal room
            batch = decode(data)
            room -= len(data) + _CHUNK_BYTES
            if room < 0:
                room = reserve(len(data) + _CHUNK_BYTES)
            if room >= 0:
                keep_data(data)
                keep_end(len(buffer))
                keep_time(clock())
                keep_batch(batch[0][1] if len(batch) == 1 and not batch[0][0] else batch)
            return feed(batch) and not exchange.finished

        self._unused.append(lambda: room)
        return read

    def watch_response(self, send: Send) -> Send:
        """Return an ASGI `send` that keeps what it sends."""
        keep, reserve, clock = self.sent.append, self._reserve, time.monotonic
        room = 0

        def send_and_keep(message: Message) -> Awaitable[None]:
            nonlocal room
            data = message.get("body")
            if data:
                room -= len(data) + _WRITE_BYTES
                if room < 0:
                    room = reserve(len(data) + _WRITE_BYTES)
                if room >= 0:
                    keep(clock(), data)
            elif "status" in message:
                self.status = message["status"]
            return send(message)

        self._unused.append(lambda: room)
        return send_and_keep

    def end(self, error: str) -> None:
        """Take note that the response has ended; `error` says why it failed, empty if it did not."""
        self.error = self.mask.mask_text(error)
        self.ended_at = time.monotonic()
        self._give_back()
        if self.withheld:
            self.sent, self.attempts = ChunkLog(), []
        self._ring.end(self)

    def decoded(self, attempt: AttemptCapture) -> DecodedReply:
        """Return the reply of an attempt, without credentials."""
        reply = decode_reply(attempt.codec, attempt.log)
        return masked_reply(reply, self.mask) or reply

    def repeats_credentials(self) -> bool:
        """Tell whether the reply spells a credential of the request, also across the borders of its chunks."""
        replies = [decode_reply(attempt.codec, attempt.log) for attempt in self.attempts]
        if not self.attempts:
            replies = [relayed_reply(self.codec.decoder(), self.sent.chunks())]
        return any(masked_reply(reply, self.mask) is not None for reply in replies)

    def response_text(self) -> str:
        """Return what the client got, without credentials; a stream may hold one in pieces, so it is all or nothing."""
        data = bytes(self.sent.data)
        if self.mask.is_needed and (self.mask.mask(data) != data or self.repeats_credentials()):
            return "(not shown: the reply repeats a credential of the request)"
        return data.decode("utf-8", "replace")

    def _masked_body(self, body: bytes) -> bytes:
        masked = self.mask.mask(self.mask.body(body))
        return masked if self._charge(len(masked)) else b""

    def _reserve(self, size: int) -> int:
        """Charge for `size` bytes and some to come; return how many are left for these, -1 if there is no room."""
        return _SLAB if self._charge(size + _SLAB) else -1

    def _give_back(self) -> None:
        """Return what was reserved and not used."""
        unused = sum(max(remainder(), 0) for remainder in self._unused)
        self._unused.clear()
        self.size -= unused
        self._ring.used -= unused

    def _charge(self, size: int) -> bool:
        """Count bytes to be kept; return whether the ring has room for them."""
        ring = self._ring
        if ring.used + size > ring.limit and not ring.make_room(size):
            return False
        self.size += size
        ring.used += size
        return True

    def _masked_tools(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        data = msgspec.json.encode(tools)
        masked = self.mask.mask(self.mask.body(data))
        return tools if masked is data else as_tools(msgspec.json.decode(masked, type=list[Tool]))


class Subscriber:
    """One open page: the captures that changed since it was told, and a flag that wakes its stream."""

    def __init__(self) -> None:
        self.changed: dict[str, None] = {}
        self.wake = asyncio.Event()

    def notify(self, capture_id: str) -> None:
        """Take note of a change."""
        self.changed[capture_id] = None
        self.wake.set()


class CaptureRing:
    """The last captures, up to `limit` bytes in all, running requests included."""

    def __init__(self, config: Config) -> None:
        self.limit = config.inspect_bytes
        self.used = 0
        self.secrets = config_secrets(config)
        self._captures: dict[str, Capture] = {}
        self._ended: deque[Capture] = deque()
        self._count = 0
        self._subscribers: set[Subscriber] = set()

    def begin(self, connection: ClientConnection, codec: Codec) -> Capture:
        """Capture a request."""
        self._count += 1
        capture = Capture(self, self._count, connection, codec)
        self.used += capture.size
        self._captures[capture.id] = capture
        self._notify(capture)
        return capture

    def end(self, capture: Capture) -> None:
        """Take note that a request has ended."""
        self._ended.append(capture)
        if self.used > self.limit:
            self.make_room(0)
        self._notify(capture)

    def make_room(self, size: int) -> bool:
        """Drop the oldest captures that have ended; return whether `size` more bytes fit then.

        A tenth becomes free at once, so that not every chunk of a full ring has to.
        """
        while self._ended and self.used + size > self.limit - self.limit // 10:
            oldest = self._ended.popleft()
            self.used -= oldest.size
            del self._captures[oldest.id]
        return self.used + size <= self.limit

    def newest_first(self) -> Sequence[Capture]:
        """Return all captures, the newest first."""
        return list(reversed(self._captures.values()))

    def find(self, capture_id: str) -> Capture | None:
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

    def _notify(self, capture: Capture) -> None:
        for subscriber in self._subscribers:
            subscriber.notify(capture.id)
