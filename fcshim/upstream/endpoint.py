"""The model's endpoint, over HTTP: httpx on its aiohttp transport.

Rule: every failure is an `UpstreamError`. Leaving `send` before the end of the reply closes the connection, which makes
the engine stop generating. The request target is sent exactly as written. A body fails at once when its connection is
lost.
"""

import asyncio
import contextlib
import contextvars
import functools
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp
import httpx
import msgspec
import yarl
from httpx_aiohttp import AiohttpTransport

from fcshim.codecs.base import FollowUp, UpstreamRequest
from fcshim.codecs.framing import LINE_BYTES, TOO_MANY_VALUES
from fcshim.codecs.upstreams import UPSTREAMS, UpstreamKind
from fcshim.codecs.value_counter import SHORT, ValueCounter
from fcshim.config import Config, ScopedConfig, Secret
from fcshim.config.secret import KeyMask
from fcshim.errors import ConfigError, UpstreamError
from fcshim.upstream.egress import NO_EGRESS, Egress
from fcshim.upstream.reply import (
    MALFORMED_FRAMING,
    TRANSPORT_ERRORS,
    Deadline,
    Headers,
    Timeouts,
    UpstreamReply,
    current_response,
    to_upstream_error,
)

_WRITE_SIZE = 2**18
"""Bytes of a request body per write."""
_MAX_FETCHED = 4 * 2**20
"""Bytes that `fetch` reads; the longest lists of models in use take a few hundred KB."""
_VERSION_PATTERN = re.compile(r"/v\d")
_JSON_HEADERS = [(b"content-type", b"application/json")]

_SENT = httpx.Request("POST", "")
"""Stands for the request in each response of httpx, so that the body is freed once it is sent."""
_DEFAULT_TIMEOUTS = Timeouts()
_KEEP_ALIVE = 3.0
"""Seconds that an idle connection is kept. llama-server and uvicorn close theirs after 5, and a request that is sent at
that moment is lost."""

connection_reused: contextvars.ContextVar[bool] = contextvars.ContextVar("reused", default=False)
"""Whether this task's request was sent on a reused connection."""

request_target: contextvars.ContextVar[str] = contextvars.ContextVar("target")
"""Path and query of this task's request, as written."""


class Upstream:
    """One endpoint. Use it as a context manager, or call `aclose`; it connects with the first request.

    `url` may lack the API version. `key` is sent with every request.
    """

    def __init__(
        self,
        url: str,
        *,
        key: Secret | None = None,
        timeouts: Timeouts = _DEFAULT_TIMEOUTS,
        kind: UpstreamKind = UPSTREAMS["openai"],
        egress: Egress = NO_EGRESS,
    ) -> None:
        self.url = api_url(url, kind.version)
        self.kind = kind
        self._key = key
        self._mask = KeyMask(([] if key is None else [key]) + egress.secrets())
        self.timeouts = timeouts
        self._egress = egress
        self._own_headers = [(name.encode(), value.reveal().encode()) for name, value in egress.headers]
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

    def send_request(
        self, request: UpstreamRequest, *, headers: Headers = ()
    ) -> "contextlib.AbstractAsyncContextManager[UpstreamReply]":
        """Send a codec's request and open its reply. Raises `UpstreamError`.

        The reply to a request with a `follow_up` only serves to make the second request. The second reply is the one
        that is opened, unless the status of the first is not 200.
        """
        if request.follow_up is not None:
            return self._send_with_follow_up(request, request.follow_up, headers)
        codec_headers = [(b"content-type", b"application/json"), (b"accept", b"text/event-stream, application/json")]
        return self.send(
            "POST", request.path, headers=[*headers, *request.headers, *codec_headers], content=request.body
        )

    @contextlib.asynccontextmanager
    async def _send_with_follow_up(
        self, request: UpstreamRequest, make_follow_up: Callable[[bytes], FollowUp], headers: Headers
    ) -> AsyncIterator["UpstreamReply"]:
        async with self.send_request(msgspec.structs.replace(request, follow_up=None), headers=headers) as reply:
            if reply.status != 200:
                yield reply
                return
            follow_up = make_follow_up(_checked(await reply.read(LINE_BYTES)))
        sending, prefix = self.send_request(follow_up.request, headers=headers), follow_up.body_prefix
        del request, make_follow_up, follow_up  # a reply may take minutes
        async with sending as reply:
            if reply.status == 200:
                reply.prefix = prefix
            yield reply

    @contextlib.asynccontextmanager
    async def send(
        self, method: str, path: str, *, headers: Headers = (), content: bytes | AsyncIterable[bytes] = b""
    ) -> AsyncIterator["UpstreamReply"]:
        """Send a request to `path` (with query) below the endpoint's API version; open the reply, whatever its status.

        Raises `UpstreamError` if the endpoint is unreachable or too slow, redirects, or compresses the reply although
        the request forbids that.
        """
        deadline = Deadline(self.timeouts.first_chunk)
        try:
            try:
                response = await self._send_with_retry(method, path, headers, content)
            except asyncio.CancelledError:
                deadline.raise_if_expired()
                raise
            except TRANSPORT_ERRORS as error:
                raise to_upstream_error(error, self.timeouts.connect, self._mask) from error
            del headers, content  # a reply may take minutes
            response.request = _SENT
            reply = UpstreamReply(response, deadline, self.timeouts, self._mask)
            try:
                reply.validate()
                yield reply
                await reply.wait_for_end()
            finally:
                await reply.aclose()
        finally:
            deadline.close()

    async def fetch(self, method: str, path: str, content: bytes = b"") -> tuple[int, bytes]:
        """Send a small request; return the status and the body.

        A path that starts with `//` is relative to the root URL. Raises `UpstreamError` as `send` does, if the whole
        reply takes longer than `Timeouts.page`, and if its JSON has very many values.
        """
        headers = [*self.kind.headers, *(_JSON_HEADERS if content else ())]
        limit = self.timeouts.page
        try:
            async with (
                asyncio.timeout(limit),
                self.send(method, path, headers=headers, content=content) as reply,
            ):
                return reply.status, _checked(await reply.read(_MAX_FETCHED))
        except TimeoutError as error:
            name = f"{method} {path.partition('?')[0]}"
            raise UpstreamError(f"no answer to {name} within {limit:g} s", status=504, kind="timeout") from error

    async def list_models(self) -> tuple[list[str], bytes]:
        """Return the names of the endpoint's models, and the body of its list. Raises `UpstreamError`."""
        codec = self.kind.codec
        status, listed = await self.fetch("GET", codec.models_path)
        if status != 200:
            raise codec.decode_error(status, {}, listed)
        return codec.decode_models(listed), listed

    async def _send_with_retry(
        self, method: str, path: str, headers: Headers, content: bytes | AsyncIterable[bytes]
    ) -> httpx.Response:
        """Send a request, and send it again if the endpoint had closed the kept connection before it was used.

        llama-server closes the connection after every stream although its headers promise keep-alive, so this is not
        rare, and a request that was already written is sent again. A body that is an iterator cannot be sent twice.
        """
        url = root_url(self.url) + path[1:] if path.startswith("//") else self.url + path
        while True:
            connection_reused.set(False)
            request_target.set("/" + url.split("/", 3)[3])
            try:
                return await self._get_client().send(self._build_request(method, url, headers, content), stream=True)
            except TRANSPORT_ERRORS as error:
                connection_closed = isinstance(error.__cause__ or error, (aiohttp.ClientConnectionError, OSError))
                if not (connection_closed and connection_reused.get() and isinstance(content, bytes)):
                    raise

    def _get_client(self) -> httpx.AsyncClient:
        if self._client is None:
            # The aiohttp session verifies certificates; with `verify` the transport would load all of them again.
            transport = AiohttpTransport(client=functools.partial(new_session, self._egress), verify=False)
            self._client = httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False)
        return self._client

    def _build_request(
        self, method: str, url: str, headers: Headers, content: bytes | AsyncIterable[bytes]
    ) -> httpx.Request:
        own = self._own_headers
        if own:
            replaced = {name for name, _ in own}
            headers = [*(pair for pair in headers if pair[0].lower() not in replaced), *own]
        all_headers = [*headers, (b"accept-encoding", b"identity")]
        if self._key is not None:
            all_headers.append(key_header(self.kind, self._key.reveal().encode()))
        if isinstance(content, bytes) and len(content) > _WRITE_SIZE:
            all_headers.append((b"content-length", str(len(content)).encode()))
            content = _split_body(content)
        # The waits for the reply are limited by `Deadline`, with one timer for each reply.
        timeouts = {"connect": self.timeouts.connect, "read": None, "write": None, "pool": None}
        extensions = {"timeout": timeouts}
        target = url if "?" in url else _parsed_url(url)  # a query may hold a key, which must not be kept
        return httpx.Request(method, target, headers=all_headers, content=content, extensions=extensions)


def _checked(body: bytes) -> bytes:
    """Return a body that has few enough JSON values to be decoded. Raises `UpstreamError`."""
    if len(body) > SHORT and ValueCounter().feed(body):
        raise UpstreamError(f"the upstream sent {TOO_MANY_VALUES}")
    return body


def upstream_for(config: Config) -> Upstream:
    """Make the upstream of a configuration. Raises `ConfigError` where it has several, outside of the proxy."""
    if config.upstreams and not isinstance(config, ScopedConfig):
        raise ConfigError(
            f"the settings have several upstreams ({', '.join(config.upstreams)}): expected --upstream URL"
        )
    return Upstream(config.upstream, key=config.upstream_key, timeouts=timeouts_of(config), kind=kind_of(config))


def timeouts_of(config: Config) -> Timeouts:
    """Return the timeouts of a configuration."""
    return Timeouts(connect=config.connect_timeout, first_chunk=config.first_chunk_timeout, chunk=config.chunk_timeout)


def kind_of(config: Config) -> UpstreamKind:
    """Return the kind of a configuration's upstream."""
    return UPSTREAMS[config.upstream_api]


def key_header(kind: UpstreamKind, key: bytes) -> tuple[bytes, bytes]:
    """Return the header that carries a key to this kind of upstream."""
    name, prefix = kind.key_header
    return name, prefix + key


@functools.lru_cache(maxsize=32)  # parsing takes half of the time of making a request
def _parsed_url(url: str) -> httpx.URL:
    return httpx.URL(url)


async def _split_body(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), _WRITE_SIZE):
        yield content[start : start + _WRITE_SIZE]


def api_url(url: str, version: str = "/v1") -> str:
    """Return the URL to which paths such as `/chat/completions` are appended.

    `version` is added unless the path names one anywhere (`/v1`, `/api/paas/v4`, `/v1beta/openai`).
    """
    url = url.rstrip("/")
    return url if _VERSION_PATTERN.search(urlsplit(url).path) else url + version


def root_url(url: str) -> str:
    """Return the URL without the versioned part of its path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{_VERSION_PATTERN.split(parts.path, maxsplit=1)[0]}"


def new_session(egress: Egress = NO_EGRESS) -> aiohttp.ClientSession:
    """Make the connection pool: unlimited, without cookies, through the proxy of `egress` or none.

    With a limit, long streams would block each other.
    """
    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(_on_connection_reuse)
    tracing.on_request_end.append(_on_request_end)
    return aiohttp.ClientSession(
        trace_configs=[tracing],
        middlewares=[_prepare_request],
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE, ssl=egress.ssl_context() or True),
        proxy=None if egress.proxy is None else egress.proxy.reveal(),
        cookie_jar=aiohttp.DummyCookieJar(),
        # A relayed request must not get headers that its client did not send.
        skip_auto_headers=("accept", "user-agent", "content-type"),
        trust_env=False,
    )


async def _prepare_request(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send the request target as written: aiohttp would decode and re-encode it, which loses a `%2F`."""
    request.url = yarl.URL(str(request.url.origin()) + request_target.get(), encoded=True)
    # The event loop reads the ends of kept connections that have already arrived, so that none of these is used.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return await handler(request)


async def _on_connection_reuse(*_: object) -> None:
    """Note it without a wait: aiohttp leaves the connection open, and forgets it, if a trace is cancelled here."""
    connection_reused.set(True)


async def _on_request_end(_session: object, _context: object, ended: aiohttp.TraceRequestEndParams) -> None:
    """Keep the response, and fail its body when the connection closes.

    After malformed framing, aiohttp would leave the body open.
    """
    current_response.set(ended.response)
    ended.response.reason = None  # it may have any bytes, which httpx's transport could not encode
    content, connection = ended.response.content, ended.response.connection
    protocol = None if connection is None else connection.protocol
    if protocol is None:
        return
    closed = protocol.closed
    if closed is None:
        _fail_body(content)
        return

    def on_lost(_: object) -> None:
        _fail_body(content)

    def on_complete() -> None:
        closed.remove_done_callback(on_lost)  # otherwise a kept connection would hold every body it carried

    closed.add_done_callback(on_lost)
    closed.remove_done_callback(_retrieve_exception)  # add it once per connection
    closed.add_done_callback(_retrieve_exception)
    content.on_eof(on_complete)


def _retrieve_exception(closed: "asyncio.Future[None]") -> None:
    """Retrieve the exception of a closed connection: asyncio logs one that was never retrieved."""
    if not closed.cancelled():
        closed.exception()


def _fail_body(content: aiohttp.StreamReader) -> None:
    if not content.is_eof() and content.exception() is None:
        content.set_exception(aiohttp.ClientPayloadError(MALFORMED_FRAMING))
