"""Relays requests that need no shim, unchanged in both directions; the caller may have adapted a body before.

Rule: method, path, query, body, status and headers pass unchanged, except what belongs to one connection, one key or
one browser, and fields that a reply lacks although its API requires them (`Codec.relayed_reply`). If the upstream
rejects the proxy's own key, the client gets the proxy's error. A reply that breaks off never gets a clean end.
"""

import asyncio
import contextlib
import functools
import re
from collections.abc import Callable
from urllib.parse import unquote_plus

import msgspec

from fcshim.codecs.body_fields import FieldRules
from fcshim.codecs.ndjson import NDJSON
from fcshim.codecs.reply_end import EndDetector
from fcshim.config import Config
from fcshim.config.credentials import is_credential
from fcshim.errors import FcshimError, UpstreamError
from fcshim.server.client_connection import ClientConnection, Headers
from fcshim.server.guard import FORM_CONTENT_TYPE, client_key
from fcshim.server.model_name import read_model_name
from fcshim.server.relayed_reply import RelayedUsage
from fcshim.server.request_body import split_body
from fcshim.upstream import Upstream, UpstreamReply, key_header

_HOP_BY_HOP = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection",
        b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect",
    }
)  # fmt: skip
_NO_CREDENTIALS = frozenset({b"idempotency-key", b"x-idempotency-key"})
"""Headers that have the name of a credential and are none."""
_PAGE_HEADERS = frozenset(
    {
        b"refresh", b"link", b"set-cookie", b"clear-site-data", b"service-worker-allowed", b"alt-svc",
        b"content-security-policy", b"content-security-policy-report-only", b"x-content-type-options",
        b"strict-transport-security", b"speculation-rules", b"report-to", b"reporting-endpoints", b"nel",
        b"sourcemap", b"x-sourcemap",
    }
)  # fmt: skip
"""Headers with which an upstream would tell a browser what to do with the proxy's own origin, or with its pages."""
_FORM = (b"content-type", FORM_CONTENT_TYPE)
"""The header that `curl -d` gives JSON; other servers refuse it."""
_SANDBOX = ((b"content-security-policy", b"sandbox"), (b"x-content-type-options", b"nosniff"))
"""A page of an upstream runs no script, and has no origin: under another ASGI server, the inspector is at ours."""
_VERSION = re.compile(r"^/(?:v1(?:alpha|beta1?)?|api/v0)(?=/)")
"""The versions of the APIs; the last is LM Studio's, whose own paths are those of OpenAI's API."""
_MAX_REST_WAIT = 1.0
"""Seconds for the rest of a reply whose last event has come."""
_MAX_COMPLETED = 4 * 2**20
"""Bytes of a reply that waits for its end to be completed; a larger one passes as it comes."""
_KEY_REFUSED_STATUSES = frozenset({401, 403})
_NOT_FORWARDED = frozenset(
    {
        b"host", b"content-length", b"accept-encoding",  # set for the upstream connection
        b"cookie", b"origin", b"referer",  # may belong to another service on this host name
        b"x-fcshim-mcp",  # for the proxy itself
        b"x-conversation-id",  # makes llama-server continue after its client has disconnected
    }
)  # fmt: skip
_REPLACES_TARGET = re.compile(
    rb"method|x-(?:http-|original-|forwarded-|override-|rewrite-)?(?:method|url|uri|path|prefix)(?:-override)?"
    rb"|x-http-(?:destination|method)-override|destination"
)
"""Headers from which frameworks and gateways take the method or the path, which would undo the checks of both."""
_WITHOUT_BODY = frozenset({204, 304})
"""Statuses whose replies have no body, whatever length their head says (RFC 9110, 8.6)."""
_RENAMED_FIELDS = FieldRules(known=frozenset({"model"}))
_RENAMED = {b"x-request-id": b"x-upstream-request-id"}
"""The response has an id of its own, under which it is logged; the upstream's support asks for its own."""


class Relay:
    """Relays requests to an upstream that speaks their client's API."""

    def __init__(self, config: Config, upstream: Upstream) -> None:
        self._config = config
        self._upstream = upstream
        self._codec = upstream.kind.codec
        self._forwards_key = config.forward_client_key and config.upstream_key is None

    async def serve(self, connection: ClientConnection) -> None:
        """Relay a request.

        The whole body is read first, for two reasons: `watch_disconnect` would consume parts of it, and only a complete
        request can be sent again if a kept connection turns out to be closed.
        """
        body = await connection.body(self._config.max_body)
        await self.forward(connection, await self._renamed_body(body) if self._config.upstreams else body)

    async def forward(
        self,
        connection: ClientConnection,
        content: bytes,
        may_be_sent_otherwise: Callable[[FcshimError], bool] | None = None,
        complete_reply: Callable[[bytes], bytes] | None = None,
        usage: RelayedUsage | None = None,
    ) -> FcshimError | None:
        """Relay a request whose body has been read.

        Return an error of the upstream for which `may_be_sent_otherwise` is true; the client then has nothing yet.
        `complete_reply` adds what a reply that is one document lacks. `usage` gets the bytes of a reply.
        """
        headers = self.forwarded_headers(connection.headers)
        async with (
            connection.watch_disconnect(),
            self._upstream.send(
                connection.method,
                _path_below_version(connection, with_key=self._forwards_key),
                headers=headers,
                content=content,
            ) as reply,
        ):
            if reply.status in connection.fallback_statuses:
                raise self._codec.decode_error(reply.status, {}, await reply.read_error())
            if reply.status in _KEY_REFUSED_STATUSES and self._config.upstream_key is not None:
                # The client would suspect its own key, and such error messages often quote the key that was rejected.
                raise self._codec.decode_error(reply.status, {}, b"")
            error_body = await reply.read_error() if reply.status >= 400 else b""
            if error_body and may_be_sent_otherwise is not None:
                error = self._codec.decode_error(reply.status, {}, error_body)
                if may_be_sent_otherwise(error):
                    return error
            if reply.broke_off:
                raise self._codec.decode_error(reply.status, {}, error_body)
            returned = _returned_headers(reply)
            is_json = reply.header("content-type").partition(";")[0].strip().lower() == "application/json"
            is_document = reply.status == 200 and is_json and not reply.header("content-encoding")
            if complete_reply is not None and is_document:
                # Its length may change, and follows from the body that is sent.
                connection.prepare(reply.status, [pair for pair in returned if pair[0].lower() != b"content-length"])
                await self._copy_body(reply, connection, complete_reply, usage)
                return None
            connection.prepare(reply.status, returned)
            await connection.start()
            if error_body:
                await connection.write(error_body)
            await self._copy_body(reply, connection, usage=usage if reply.status == 200 else None)
        return None

    async def _renamed_body(self, body: bytes) -> bytes:
        """Return a body that is relayed as it is, but with the name that the upstream has for its model."""
        name = read_model_name(body)
        model = self._config.for_model(name).upstream_model if name else None
        if model is None:
            return body
        await split_body(body, _RENAMED_FIELDS)  # refuses a body with very many fields
        return with_model_name(body, model)

    async def _copy_body(
        self,
        reply: UpstreamReply,
        connection: ClientConnection,
        complete_reply: Callable[[bytes], bytes] | None = None,
        usage: RelayedUsage | None = None,
    ) -> None:
        # The last bytes sent: an error event can be appended only between two events.
        tail = b"\n\n"
        end_detector = EndDetector(self._codec, reply.header("content-type"))
        # The length says where any other body ends, and one that is shorter must not get a clean end.
        may_end_early = _is_stream(reply) or not reply.header("content-length")
        observers = connection.observers
        held = bytearray()
        try:
            async for data in reply:
                if observers is not None:
                    observers.relay(data)
                if usage is not None:
                    usage.add((data,))
                if complete_reply is None:
                    await connection.write(data)
                else:
                    held += data
                    if len(held) > _MAX_COMPLETED:
                        await connection.write(bytes(held))
                        held, complete_reply = bytearray(), None
                if may_end_early and end_detector.feed(data):
                    if complete_reply is None:
                        await _copy_rest(reply, connection)
                    break
                tail = (tail + data)[-4:] if len(data) < 4 else data[-4:]
        except UpstreamError as error:
            ends_event = tail.endswith((b"\n\n", b"\r\r", b"\r\n\r\n"))
            if not reply.header("content-type").startswith("text/event-stream") or not ends_event:
                raise
            await connection.write(self._codec.encode_stream_error(error))
        await connection.end(b"" if complete_reply is None else complete_reply(bytes(held)))

    def forwarded_headers(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        """Return the client's headers that the upstream may see."""
        dropped = _HOP_BY_HOP | _NOT_FORWARDED | _connection_options(headers)
        forwarded: list[tuple[bytes, bytes]] = []
        for name, value in headers:
            lower = name.lower()
            # CGI and WSGI servers read `_` as `-`.
            if lower.replace(b"_", b"-") in dropped or _replaces_target(lower):
                continue
            if self._forwards_key or not _holds_credential(lower):
                forwarded.append((name, b"application/json" if (lower, value) == _FORM else value))
        return forwarded

    def translated_headers(self, connection: ClientConnection) -> list[tuple[bytes, bytes]]:
        """Return what an upstream of another API may see of the client's headers: the key, where keys are forwarded."""
        key = client_key(connection.headers, connection.query)
        return [key_header(self._upstream.kind, key)] if key and self._forwards_key else []


@functools.lru_cache(maxsize=128)
def _replaces_target(name: bytes) -> bool:
    return _REPLACES_TARGET.fullmatch(name.replace(b"_", b"-").lstrip(b"-")) is not None


def with_model_name(body: bytes, model: str | None) -> bytes:
    """Return the request body with another model name; the bytes of every other value stay as they are."""
    if model is None:
        return body
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**fields, "model": model})


@functools.lru_cache(maxsize=128)
def _holds_credential(name: bytes) -> bool:
    """Return whether a header of this name may hold a key, which was meant for the proxy or for another service."""
    letters = name.decode("latin-1")
    return name.replace(b"_", b"-") not in _NO_CREDENTIALS and (
        is_credential(letters, parameter=True) or letters.endswith("auth")
    )


async def _copy_rest(reply: UpstreamReply, connection: ClientConnection) -> None:
    """Relay what still comes after the last event; a body that stays open does not hold up the client."""
    with contextlib.suppress(TimeoutError, UpstreamError):
        async with asyncio.timeout(_MAX_REST_WAIT):
            async for data in reply:
                await connection.write(data)


def _path_below_version(connection: ClientConnection, *, with_key: bool) -> str:
    """Return path and query below the API's version; a route outside of the versioned API starts with `//`."""
    path = _VERSION.sub("", connection.encoded_path, count=1)
    if path == connection.encoded_path and not path.startswith("/models/"):
        path = "/" + path
    fields = connection.query.decode("latin-1").split("&")
    if not with_key:
        names = [unquote_plus(field.partition("=")[0]) for field in fields]
        fields = [each for each, name in zip(fields, names, strict=True) if name != "key" and not is_credential(name)]
    query = "&".join(fields)
    return path + ("?" + query if query else "")


def _is_stream(reply: UpstreamReply) -> bool:
    """Return whether the reply's last event ends it, so that its length may be another one than its head says."""
    return reply.header("content-type").startswith(("text/event-stream", NDJSON))


def _returned_headers(reply: UpstreamReply) -> list[tuple[bytes, bytes]]:
    """Return the upstream's headers that the client may see.

    CORS headers are dropped: the proxy's own configuration decides which web origins may read the response.
    """
    # uvicorn sends a date of its own.
    dropped = _HOP_BY_HOP | _PAGE_HEADERS | {b"date"} | _connection_options(reply.headers)
    if _is_stream(reply) or reply.status in _WITHOUT_BODY:
        dropped |= {b"content-length"}
    lowered = [(name.lower(), value) for name, value in reply.headers]
    kept = [
        (_RENAMED.get(name, name), value)
        for name, value in lowered
        if name not in dropped and not name.startswith(b"access-control-")
    ]
    return [*kept, *_SANDBOX]


def _connection_options(headers: Headers) -> frozenset[bytes]:
    named = b",".join(value for name, value in headers if name.lower() == b"connection")
    return frozenset(map(bytes.strip, named.lower().split(b",")))
