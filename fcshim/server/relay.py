"""Requests that need no shim: relayed as they are, both ways.

Rule: method, path, query, body, status and headers pass unchanged, minus what belongs to one connection, one key or one
browser (a refusal of our own key is told as ours); a reply that breaks off is never ended as if it were whole.
Neighbours: `chat` sends its requests without tools here, `app` everything else below `/v1`.
"""

import re

from fcshim.config import Config
from fcshim.errors import RequestError, UpstreamError
from fcshim.server.asgi import Headers, header
from fcshim.server.line import Line
from fcshim.upstream import Upstream, UpstreamReply

_HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
    }
)
_KEYS = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
_VERSION = re.compile(r"^/v1(?:alpha|beta1?)?(?=/)")
_KEY_REFUSED = frozenset({401, 403})
_OURS = frozenset(
    {
        *(b"host", b"content-length", b"accept-encoding"),  # of our own connection
        *(b"cookie", b"origin", b"referer"),  # meant for whatever else runs under this host name
        b"x-fcshim-mcp",  # meant for us
        b"x-conversation-id",  # makes llama-server go on when the client has left
    }
)


class Relay:
    """Relays requests to one upstream, whose API their clients speak too."""

    def __init__(self, config: Config, upstream: Upstream) -> None:
        self._config = config
        self._upstream = upstream
        self._codec = upstream.kind.codec

    async def serve(self, line: Line) -> None:
        """Relay a request.

        The body is read first: whoever listens for the client's leaving would take parts of it, and only a request
        that is whole can be sent once more where a kept connection turns out to be closed.
        """
        await self.pass_on(line, await line.body(self._config.max_body))

    async def pass_on(self, line: Line, content: bytes) -> None:
        """Relay a request whose body has been read."""
        headers = self.forwarded(line.headers)
        async with (
            line.attended(),
            self._upstream.send(line.method, self._address(line), headers=headers, content=content) as reply,
        ):
            if reply.status in _KEY_REFUSED and self._config.upstream_key is not None:
                # The client would look for the fault in its own key, and such messages like to show the key they got.
                raise self._codec.decode_error(reply.status, {}, b"")
            line.plan(reply.status, _returned(reply.headers))
            await line.start()
            if reply.status >= 400:
                await line.write(await reply.read_error())
            await self._copy(reply, line)

    def _address(self, line: Line) -> str:
        """Give path and query for the upstream, without the client's key. Raises as `_below_version`."""
        return _below_version(line, with_key=self._config.forward_client_key and self._config.upstream_key is None)

    async def _copy(self, reply: UpstreamReply, line: Line) -> None:
        tail = b"\n\n"
        try:
            async for data in reply:
                await line.write(data)
                tail = (tail + data)[-4:] if len(data) < 4 else data[-4:]
        except UpstreamError as error:
            if not reply.header("content-type").startswith("text/event-stream") or not _between_events(tail):
                raise
            await line.write(self._codec.encode_stream_error(error))
        await line.end()

    def forwarded(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        """Give the client's headers that the upstream may see."""
        dropped = _HOP_BY_HOP | _OURS | _named_by_connection(headers)
        if not self._config.forward_client_key or self._config.upstream_key is not None:
            dropped |= _KEYS
        return [(name, value) for name, value in headers if name.lower() not in dropped]


def _below_version(line: Line, *, with_key: bool) -> str:
    """Give path and query below the API's version. Raises `RequestError` where the path leads out of it."""
    if {".", ".."} & set(line.path.replace("\\", "/").split("/")):
        raise RequestError("the path has dot segments")
    given = line.raw_path.decode("latin-1")
    path = _VERSION.sub("", given, count=1)
    if path == given and not path.startswith("/models/"):
        path = "/" + given  # beside the versions
    fields = [field for field in line.query.decode("latin-1").split("&") if with_key or not field.startswith("key=")]
    query = "&".join(fields)
    return path + ("?" + query if query else "")


def _returned(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Give the upstream's headers that the client may see; whether a web page may read them is for us to say."""
    dropped = _HOP_BY_HOP | {b"date"} | _named_by_connection(headers)
    lowered = [(name.lower(), value) for name, value in headers]
    return [(name, value) for name, value in lowered if name not in dropped and not name.startswith(b"access-control-")]


def _named_by_connection(headers: Headers) -> frozenset[bytes]:
    named = header([(name.lower(), value) for name, value in headers], b"connection")
    return frozenset(name.strip().lower() for name in named.split(b","))


def _between_events(tail: bytes) -> bool:
    return tail.endswith((b"\n\n", b"\r\r", b"\r\n\r\n"))
