"""The endpoint behind us, over HTTP: httpx on its aiohttp transport.

Rule: whatever goes wrong there leaves as an `UpstreamError`; leaving `send` early closes the connection, which is how
a model is told to stop.
Neighbours: `client` and `server` read replies from here and feed them to an `Exchange`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Callable
from types import TracebackType
from typing import Self

import aiohttp
import httpx
import msgspec
from httpx_aiohttp import AiohttpTransport

from fcshim.codecs.base import FollowUp, UpstreamRequest
from fcshim.codecs.sse import LINE_BYTES
from fcshim.codecs.upstreams import UPSTREAMS, UpstreamKind
from fcshim.config import Config, Secret
from fcshim.errors import UpstreamError
from fcshim.upstream.address import api_url, root_url
from fcshim.upstream.deadline import Deadline
from fcshim.upstream.reply import Headers, UpstreamReply
from fcshim.upstream.session import connection_reused, new_session, request_target
from fcshim.upstream.timeouts import Timeouts
from fcshim.upstream.transport_errors import TRANSPORT_ERRORS, to_upstream_error

_WRITE_SIZE = 2**18
"""Bytes of a request body that are written at once."""
_MAX_FETCHED = 4 * 2**20
"""Bytes of a small answer that are read; the longest lists of models in use come to a few hundred KB."""
_JSON_HEADERS = [(b"content-type", b"application/json")]

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

    def send_request(
        self, request: UpstreamRequest, *, headers: Headers = ()
    ) -> "contextlib.AbstractAsyncContextManager[UpstreamReply]":
        """Send a codec's request; the reply is meant for an `Exchange`. Raises `UpstreamError`.

        Where something is asked first and refused, that is the reply.
        """
        if request.follow_up is not None:
            return self._send_with_follow_up(request, request.follow_up, headers)
        own = [(b"content-type", b"application/json"), (b"accept", b"text/event-stream, application/json")]
        return self.send("POST", request.path, headers=[*headers, *request.headers, *own], content=request.body)

    @contextlib.asynccontextmanager
    async def _send_with_follow_up(
        self, request: UpstreamRequest, then: Callable[[bytes], FollowUp], headers: Headers
    ) -> AsyncIterator["UpstreamReply"]:
        async with self.send_request(msgspec.structs.replace(request, follow_up=None), headers=headers) as reply:
            if reply.status != 200:
                yield reply
                return
            sequel = then(await reply.read(LINE_BYTES))
        async with self.send_request(sequel.request, headers=headers) as reply:
            if reply.status == 200:
                reply.prefix = sequel.body_prefix
            yield reply

    @contextlib.asynccontextmanager
    async def send(
        self, method: str, path: str, *, headers: Headers = (), content: bytes | AsyncIterable[bytes] = b""
    ) -> AsyncIterator["UpstreamReply"]:
        """Send a request to `path` (and query) below the endpoint's `/v1`; give its reply, whatever its status.

        Raises `UpstreamError` where it is unreachable or too slow, redirects, or compresses although asked not to.
        """
        patience = Deadline(self.timeouts.first_chunk)
        try:
            try:
                response = await self._send_with_retry(method, path, headers, content)
            except asyncio.CancelledError:
                patience.raise_if_expired()
                raise
            except TRANSPORT_ERRORS as error:
                raise to_upstream_error(error, self.timeouts.connect) from error
            reply = UpstreamReply(response, patience, self.timeouts, self._key)
            try:
                reply.validate()
                yield reply
                await reply.wait_for_end()
            finally:
                await reply.aclose()
        finally:
            patience.close()

    async def fetch(self, method: str, path: str, content: bytes = b"") -> tuple[int, bytes]:
        """Ask for something small; give the status and the body. A path that begins with `//` stands beside `/v1`.

        Raises `UpstreamError` as `send` does, and where the answer takes too long.
        """
        headers = [*self.kind.headers, *(_JSON_HEADERS if content else ())]
        limit = self.timeouts.page
        try:
            async with (
                asyncio.timeout(limit),
                self.send(method, path, headers=headers, content=content) as reply,
            ):
                return reply.status, await reply.read(_MAX_FETCHED)
        except TimeoutError as error:
            asked = f"{method} {path.partition('?')[0]}"
            raise UpstreamError(f"no answer to {asked} within {limit:g} s", status=504, kind="timeout") from error

    def mask_key(self, data: bytes) -> bytes:
        """Give what came from there with our key masked in it."""
        return data if self._key is None else self._key.mask(data)

    async def _send_with_retry(
        self, method: str, path: str, headers: Headers, content: bytes | AsyncIterable[bytes]
    ) -> httpx.Response:
        """Send, and send again where a kept connection had been closed over there before it was used.

        llama-server closes after every stream although its headers promise the opposite, so this is no rare race.
        """
        while True:
            connection_reused.set(False)
            request_target.set("/" + self._full_url(path).split("/", 3)[3])
            try:
                return await self._get_client().send(self._build_request(method, path, headers, content), stream=True)
            except TRANSPORT_ERRORS as error:
                hung_up = isinstance(error.__cause__ or error, (aiohttp.ClientConnectionError, OSError))
                if not (hung_up and connection_reused.get() and isinstance(content, bytes)):
                    raise

    def _get_client(self) -> httpx.AsyncClient:
        if self._client is None:
            # The session verifies certificates by itself; the transport would load them all once more.
            transport = AiohttpTransport(client=new_session, verify=False)
            self._client = httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False)
        return self._client

    def _build_request(
        self, method: str, path: str, headers: Headers, content: bytes | AsyncIterable[bytes]
    ) -> httpx.Request:
        complete = [*headers, (b"accept-encoding", b"identity")]
        if self._key is not None:
            complete.append(key_header(self.kind, self._key.reveal().encode()))
        if isinstance(content, bytes) and len(content) > _WRITE_SIZE:
            complete.append((b"content-length", str(len(content)).encode()))
            content = _split_body(content)
        waits = {"connect": self.timeouts.connect, "read": None, "write": None, "pool": None}
        extensions = {"timeout": waits}
        return httpx.Request(method, self._full_url(path), headers=complete, content=content, extensions=extensions)

    def _full_url(self, path: str) -> str:
        return root_url(self.url) + path[1:] if path.startswith("//") else self.url + path


def upstream_for(config: Config) -> Upstream:
    """Make the upstream of a configuration."""
    timeouts = Timeouts(
        connect=config.connect_timeout, first_chunk=config.first_chunk_timeout, chunk=config.chunk_timeout
    )
    kind = UPSTREAMS[config.upstream_api]
    return Upstream(config.upstream, key=config.upstream_key, timeouts=timeouts, kind=kind)


def key_header(kind: UpstreamKind, key: bytes) -> tuple[bytes, bytes]:
    """Give the header that carries a key to an upstream of that kind."""
    name, lead = kind.key_header
    return name, lead + key


async def _split_body(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), _WRITE_SIZE):
        yield content[start : start + _WRITE_SIZE]
