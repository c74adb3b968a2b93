"""The endpoint behind us, over HTTP: httpx on its aiohttp transport.

Rule: whatever goes wrong there leaves as an `UpstreamError`; leaving `send` early closes the connection, which is how
a model is told to stop.
Neighbours: `client` and `server` read replies from here and feed them to an `Exchange`.
"""

import asyncio
import contextlib
import contextvars
import os
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp
import httpx
import msgspec
import yarl
from httpx_aiohttp import AiohttpTransport

from fcshim.codecs.base import Outgoing, Sequel
from fcshim.codecs.sse import LINE_BYTES
from fcshim.codecs.upstreams import UPSTREAMS, UpstreamKind
from fcshim.config import Config, Secret
from fcshim.errors import UpstreamError
from fcshim.patience import Patience
from fcshim.pouring import Pouring, Sink

Headers = Sequence[tuple[bytes, bytes]]

_KEEP_ALIVE = 3.0
"""Seconds that an idle connection is kept: llama-server and uvicorn drop theirs after 5, and a request that meets a
connection in the moment of its end is lost."""
_LINGER = 0.02
"""Seconds that the end of a body is waited for once the reply is over, so that the connection can be used again."""
_ERROR_BODY = 64 * 2**10
"""Bytes of an error answer that are read: it is for people."""
_SLICE = 2**18
"""Bytes of a request body that are written at once."""
_FETCHED = 4 * 2**20
"""Bytes of a small answer that are read; the longest lists of models in use come to a few hundred KB."""
_VERSION = re.compile(r"/v\d")
_JSON = [(b"content-type", b"application/json")]
_REDIRECTS = {301, 302, 303, 307, 308}
_READ = 2**16
"""Bytes of a body that are taken at once."""
_MALFORMED = "its framing is malformed"
_FAULTS = (httpx.HTTPError, aiohttp.ClientError, OSError)

_reused: contextvars.ContextVar[bool] = contextvars.ContextVar("reused", default=False)
"""Whether the request of this task went out on a connection that an earlier one had left."""

_target: contextvars.ContextVar[str] = contextvars.ContextVar("target")
"""Path and query of this task's request, as they were written."""
_answer: contextvars.ContextVar[aiohttp.ClientResponse] = contextvars.ContextVar("answer")
"""What the request of this task was answered with."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds: for a connection, for the first byte of the body, between two reads of it.

    `page` is for all of a small answer, such as the list of models: no model is waited for there.
    """

    connect: float = 10.0
    first_chunk: float = 600.0
    chunk: float = 300.0
    page: float = 30.0


_DEFAULT_TIMEOUTS = Timeouts()


class Upstream:
    """One endpoint. Use it as a context manager, or call `aclose`; it connects when it is first asked."""

    def __init__(
        self,
        url: str,
        *,
        key: Secret | None = None,
        timeouts: Timeouts = _DEFAULT_TIMEOUTS,
        kind: UpstreamKind = UPSTREAMS["openai"],
    ) -> None:
        self.url = api_url(url, kind.version)
        self.kind = kind
        self._key = key
        self.timeouts = timeouts
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def ask(
        self, outgoing: Outgoing, *, headers: Headers = ()
    ) -> "contextlib.AbstractAsyncContextManager[UpstreamReply]":
        """Send a codec's request; the reply is meant for an `Exchange`. Raises `UpstreamError`.

        Where something is asked first and refused, that is the reply.
        """
        if outgoing.then is not None:
            return self._ask_first(outgoing, outgoing.then, headers)
        own = [(b"content-type", b"application/json"), (b"accept", b"text/event-stream, application/json")]
        return self.send("POST", outgoing.path, headers=[*headers, *outgoing.headers, *own], content=outgoing.body)

    @contextlib.asynccontextmanager
    async def _ask_first(
        self, outgoing: Outgoing, then: Callable[[bytes], Sequel], headers: Headers
    ) -> AsyncIterator["UpstreamReply"]:
        async with self.ask(msgspec.structs.replace(outgoing, then=None), headers=headers) as reply:
            if reply.status != 200:
                yield reply
                return
            sequel = then(await reply.read(LINE_BYTES))
        async with self.ask(sequel.outgoing, headers=headers) as reply:
            if reply.status == 200:
                reply.lead = sequel.lead
            yield reply

    @contextlib.asynccontextmanager
    async def send(
        self, method: str, path: str, *, headers: Headers = (), content: bytes | AsyncIterable[bytes] = b""
    ) -> AsyncIterator["UpstreamReply"]:
        """Send a request to `path` (and query) below the endpoint's `/v1`; give its reply, whatever its status.

        Raises `UpstreamError` where it is unreachable or too slow, redirects, or compresses although asked not to.
        """
        patience = Patience(self.timeouts.first_chunk)
        try:
            try:
                response = await self._respond(method, path, headers, content)
            except asyncio.CancelledError:
                patience.check()
                raise
            except _FAULTS as error:
                raise _explained(error, self.timeouts) from error
            reply = UpstreamReply(response, patience, self.timeouts, self._key)
            try:
                reply.check()
                yield reply
                await reply.linger()
            finally:
                await reply.aclose()
        finally:
            patience.close()

    async def fetch(self, method: str, path: str, content: bytes = b"") -> tuple[int, bytes]:
        """Ask for something small; give the status and the body. A path that begins with `//` stands beside `/v1`.

        Raises `UpstreamError` as `send` does, and where the answer takes too long.
        """
        headers = [*self.kind.headers, *(_JSON if content else ())]
        limit = self.timeouts.page
        try:
            async with (
                asyncio.timeout(limit),
                self.send(method, path, headers=headers, content=content) as reply,
            ):
                return reply.status, await reply.read(_FETCHED)
        except TimeoutError as error:
            asked = f"{method} {path.partition('?')[0]}"
            raise UpstreamError(f"no answer to {asked} within {limit:g} s", status=504, kind="timeout") from error

    def masked(self, data: bytes) -> bytes:
        """Give what came from there with our key masked in it."""
        return data if self._key is None else self._key.mask(data)

    async def _respond(
        self, method: str, path: str, headers: Headers, content: bytes | AsyncIterable[bytes]
    ) -> httpx.Response:
        """Send, and send again where a kept connection had been closed over there before it was used.

        llama-server closes after every stream although its headers promise the opposite, so this is no rare race.
        """
        while True:
            _reused.set(False)
            _target.set("/" + self._address(path).split("/", 3)[3])
            try:
                return await self._opened().send(self._request(method, path, headers, content), stream=True)
            except _FAULTS as error:
                hung_up = isinstance(error.__cause__ or error, (aiohttp.ClientConnectionError, OSError))
                if not (hung_up and _reused.get() and isinstance(content, bytes)):
                    raise

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            # The session verifies certificates by itself; the transport would load them all once more.
            transport = AiohttpTransport(client=_session, verify=False)
            self._client = httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False)
        return self._client

    def _request(
        self, method: str, path: str, headers: Headers, content: bytes | AsyncIterable[bytes]
    ) -> httpx.Request:
        complete = [*headers, (b"accept-encoding", b"identity")]
        if self._key is not None:
            complete.append(key_header(self.kind, self._key.reveal().encode()))
        if isinstance(content, bytes) and len(content) > _SLICE:
            complete.append((b"content-length", str(len(content)).encode()))
            content = _slices(content)
        waits = {"connect": self.timeouts.connect, "read": None, "write": None, "pool": None}
        extensions = {"timeout": waits}
        return httpx.Request(method, self._address(path), headers=complete, content=content, extensions=extensions)

    def _address(self, path: str) -> str:
        return root_url(self.url) + path[1:] if path.startswith("//") else self.url + path


class UpstreamReply:
    """A reply that is being read: iterate over it for the bytes of its body, as they come. Raises `UpstreamError`."""

    def __init__(self, response: httpx.Response, patience: Patience, timeouts: Timeouts, key: Secret | None) -> None:
        self.status = response.status_code
        self.headers: Headers = response.headers.raw
        self.lead = b""
        """What the body is taken to begin with."""
        self._response = response
        # The transport's own answer: httpx's two layers around it cost as much as reading it.
        self._answer = _answer.get()
        self._patience = patience
        self._timeouts = timeouts
        self._key = key
        self._begun = False
        self._ended = False

    def header(self, name: str) -> str:
        """Give a header's value, empty where it is missing."""
        value: str = self._response.headers.get(name, "")
        return value

    def check(self) -> None:
        """Refuse what must not be read. Raises `UpstreamError`."""
        if self.status in _REDIRECTS:
            raise UpstreamError(f"the upstream redirects (HTTP {self.status}), which is not followed")
        if self.header("content-encoding").strip().lower() not in {"", "identity"}:
            raise UpstreamError("the upstream compressed its reply although it was asked not to")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        with self._waiting():
            data = await self._answer.content.read(_READ)
        if not data:
            self._ended = True
            raise StopAsyncIteration
        self._begun = True
        if self.lead:
            data, self.lead = self.lead + data, b""
        return data

    async def read(self, most: int) -> bytes:
        """Read the body, or the beginning of one that is longer than `most` bytes. Raises `UpstreamError`."""
        body = bytearray()
        async for data in self:
            body += data
            if len(body) > most:
                break
        return bytes(body)

    async def pour(self, sink: Sink) -> bool:
        """Give the body to `sink` as it comes; true at its end, false where the sink wants no more for now.

        Raises `UpstreamError`, and what the sink raises.
        """
        if not self._begun:
            async for data in self:
                if not sink(data):
                    return False
                break
        connection = self._answer.connection
        transport = None if connection is None else connection.transport
        if transport is None:  # the whole body is here
            async for data in self:
                if not sink(data):
                    return False
            return True
        pouring = Pouring(self._answer.content, transport, self._patience, self._timeouts.chunk)
        with self._waiting():
            self._ended = await pouring.pour(sink)
        return self._ended

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Limit the time of a wait for the upstream, and tell in our words what goes wrong meanwhile."""
        self._patience.resume()
        try:
            yield
        except asyncio.CancelledError:
            self._patience.check()
            raise
        except _FAULTS as error:
            raise _explained(error, self._timeouts) from error
        self._patience.pause(self._timeouts.chunk)

    async def read_error(self) -> bytes:
        """Read an error answer's body, or the beginning of a very long one; our key is masked in it."""
        body = bytearray()
        with contextlib.suppress(UpstreamError):
            async for data in self:
                body += data
                if len(body) >= _ERROR_BODY:
                    break
        return bytes(body) if self._key is None else self._key.mask(bytes(body))

    async def linger(self) -> None:
        """Wait a moment for the end of a body that was read as far as it matters."""
        if not self._ended:
            with contextlib.suppress(TimeoutError, UpstreamError):
                async with asyncio.timeout(_LINGER):
                    async for _ in self:
                        pass

    async def aclose(self) -> None:
        """Close the connection, or give it back where the body was read to its end."""
        with contextlib.suppress(*_FAULTS):
            await self._response.aclose()


def upstream_for(config: Config) -> Upstream:
    """Make the upstream of a configuration."""
    timeouts = Timeouts(
        connect=config.connect_timeout, first_chunk=config.first_chunk_timeout, chunk=config.chunk_timeout
    )
    kind = UPSTREAMS[config.upstream_api]
    return Upstream(config.upstream, key=config.upstream_key, timeouts=timeouts, kind=kind)


def api_url(url: str, version: str = "/v1") -> str:
    """Give the address that paths such as `/chat/completions` are appended to.

    `version` is added, unless the path names one somewhere (`/v1`, `/api/paas/v4`, `/v1beta/openai`).
    """
    url = url.rstrip("/")
    return url if _VERSION.search(urlsplit(url).path) else url + version


def key_header(kind: UpstreamKind, key: bytes) -> tuple[bytes, bytes]:
    """Give the header that carries a key to an upstream of that kind."""
    name, lead = kind.key_header
    return name, lead + key


def root_url(url: str) -> str:
    """Give the address that the versioned API lies below."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{_VERSION.split(parts.path, maxsplit=1)[0]}"


def _session() -> aiohttp.ClientSession:
    """Make the connection pool: no limit, or a thousand streams would wait for one another; no cookies, no proxies."""
    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(_note_reuse)
    tracing.on_request_end.append(_watch)
    return aiohttp.ClientSession(
        trace_configs=[tracing],
        middlewares=[_verbatim],
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("accept", "user-agent", "content-type"),
        trust_env=False,
    )


async def _verbatim(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Ask for the address as it was written: aiohttp would decode and encode it anew, and lose a `%2F` on the way."""
    request.url = yarl.URL(str(request.url.origin()) + _target.get(), encoded=True)
    return await handler(request)


async def _note_reuse(*_: object) -> None:
    _reused.set(True)


async def _watch(_session: object, _context: object, ended: aiohttp.TraceRequestEndParams) -> None:
    """Keep the answer, and break its body off when the connection closes: after malformed framing aiohttp does not."""
    _answer.set(ended.response)
    content, connection = ended.response.content, ended.response.connection
    protocol = None if connection is None else connection.protocol
    if protocol is None:
        return
    closed = protocol.closed
    if closed is None:
        _break_off(content)
        return

    def lost(_: object) -> None:
        _break_off(content)

    def whole() -> None:
        closed.remove_done_callback(lost)  # a kept connection must not remember every body that it carried

    closed.add_done_callback(lost)
    closed.remove_done_callback(_look_at)  # once is enough for a kept connection
    closed.add_done_callback(_look_at)
    content.on_eof(whole)


def _look_at(closed: "asyncio.Future[None]") -> None:
    """Look at why a connection has closed: asyncio logs an error that nobody has looked at."""
    if not closed.cancelled():
        closed.exception()


def _break_off(content: aiohttp.StreamReader) -> None:
    if not content.is_eof() and content.exception() is None:
        content.set_exception(aiohttp.ClientPayloadError(_MALFORMED))


async def _slices(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), _SLICE):
        yield content[start : start + _SLICE]


def _explained(error: Exception, timeouts: Timeouts) -> UpstreamError:
    """Say what went wrong in our words. The transport's own classes are the truth; httpx's are made from them."""
    cause = error.__cause__ if isinstance(error, httpx.HTTPError) and error.__cause__ else error
    match cause:
        case aiohttp.ServerTimeoutError():
            wait = f"the upstream accepted no connection within {timeouts.connect:g} s"
            return UpstreamError(wait, status=504, kind="timeout")
        case aiohttp.ClientConnectorError():
            message = f"cannot connect to the upstream at {cause.host}:{cause.port}: {reason_of(cause.os_error)}"
        case aiohttp.ClientResponseError():
            message = f"the upstream's answer is not HTTP: {cause.message!r:.200}"
        case aiohttp.ServerDisconnectedError() | OSError():
            message = "the upstream closed the connection"
        case aiohttp.ClientPayloadError() if str(cause) != _MALFORMED:
            message = "the upstream's reply broke off: the connection was closed before its end"
        case _:
            message = f"the upstream's reply broke off: {str(cause) or type(cause).__name__:.200}"
    return UpstreamError(message, lost=True)


def reason_of(error: OSError) -> str:
    """Say what the system says of an error, without what asyncio adds (the address, as Python writes it)."""
    number = error.errno or 0  # a name that is not found has a negative one, of another table
    return os.strerror(number) if number > 0 else error.strerror or str(error)
