"""The HTTP transport: the connection pool, per-request data that passes through httpx to aiohttp, and its errors.

Rule: the request target is sent exactly as written. A body fails at once when its connection is lost. Every error
becomes an `UpstreamError` whose message tells the operator what happened and with which endpoint.
"""

import asyncio
import contextvars
import errno
import os

import aiohttp
import httpx
import yarl

from fcshim.config import Secret
from fcshim.errors import UpstreamError

TRANSPORT_ERRORS = (httpx.HTTPError, aiohttp.ClientError, OSError)
"""The exceptions that the transport raises."""
_NO_FILES = {errno.EMFILE, errno.ENFILE}
MALFORMED_FRAMING = "its framing is malformed"
"""The message for a body whose end cannot be determined."""


def to_upstream_error(error: Exception, connect: float, key: Secret | None = None) -> UpstreamError:
    """Translate a transport error; `connect` is the connect timeout in seconds, `key` is masked in the message.

    The aiohttp exception is used if there is one: httpx derives its own from it and loses details.
    """
    cause = error.__cause__ if isinstance(error, httpx.HTTPError) and error.__cause__ else error
    match cause:
        case aiohttp.ServerTimeoutError():
            wait = f"the upstream accepted no connection within {connect:g} s"
            return UpstreamError(wait, status=504, kind="timeout")
        case aiohttp.ClientConnectorError():
            if cause.os_error.errno in _NO_FILES:
                return UpstreamError("the proxy has no free file descriptors", status=503, kind="unavailable")
            message = f"cannot connect to the upstream at {cause.host}:{cause.port}: {os_error_reason(cause.os_error)}"
        case aiohttp.ClientResponseError():
            message = f"the upstream's answer is not HTTP: {_mask(cause.message, key)!r:.200}"
        case aiohttp.ServerDisconnectedError() | OSError():
            message = "the upstream closed the connection"
        case aiohttp.ClientPayloadError() if str(cause) != MALFORMED_FRAMING:
            message = "the upstream's reply broke off: the connection was closed before its end"
        case _:
            message = f"the upstream's reply broke off: {_mask(str(cause), key) or type(cause).__name__:.200}"
    return UpstreamError(message, lost=True)


def _mask(text: str, key: Secret | None) -> str:
    return text if key is None else key.mask_text(text)


def os_error_reason(error: OSError) -> str:
    """Return the system's message for an error, without the address that asyncio adds."""
    number = error.errno or 0  # an unresolved host name has a negative number, of getaddrinfo
    return os.strerror(number) if number > 0 else error.strerror or str(error)


_KEEP_ALIVE = 3.0
"""Seconds that an idle connection is kept. llama-server and uvicorn close theirs after 5, and a request that is sent at
that moment is lost."""

connection_reused: contextvars.ContextVar[bool] = contextvars.ContextVar("reused", default=False)
"""Whether this task's request was sent on a reused connection."""

request_target: contextvars.ContextVar[str] = contextvars.ContextVar("target")
"""Path and query of this task's request, as written."""
current_response: contextvars.ContextVar[aiohttp.ClientResponse] = contextvars.ContextVar("answer")
"""The response to this task's request."""


def new_session() -> aiohttp.ClientSession:
    """Make the connection pool: unlimited, without cookies and proxies.

    With a limit, long streams would block one another.
    """
    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(_on_connection_reuse)
    tracing.on_request_end.append(_on_request_end)
    return aiohttp.ClientSession(
        trace_configs=[tracing],
        middlewares=[_send_target_verbatim],
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE),
        cookie_jar=aiohttp.DummyCookieJar(),
        # A relayed request must not get headers that its client did not send.
        skip_auto_headers=("accept", "user-agent", "content-type"),
        trust_env=False,
    )


async def _send_target_verbatim(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send the request target as written: aiohttp would decode and re-encode it, which loses a `%2F`."""
    request.url = yarl.URL(str(request.url.origin()) + request_target.get(), encoded=True)
    return await handler(request)


async def _on_connection_reuse(*_: object) -> None:
    connection_reused.set(True)


async def _on_request_end(_session: object, _context: object, ended: aiohttp.TraceRequestEndParams) -> None:
    """Keep the response, and fail its body when the connection closes.

    After malformed framing, aiohttp would leave the body open.
    """
    current_response.set(ended.response)
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
