"""The pool of connections, and what one request has to tell of its own: the transport beneath httpx.

Rule: what a request was written as is what is sent, and no body is waited for whose connection is gone.
Neighbours: `endpoint` opens one pool for each upstream, `reply` reads the answers that are kept here.
"""

import asyncio
import contextvars

import aiohttp
import yarl

from fcshim.upstream.transport_errors import MALFORMED_FRAMING

_KEEP_ALIVE = 3.0
"""Seconds that an idle connection is kept: llama-server and uvicorn drop theirs after 5, and a request that meets a
connection in the moment of its end is lost."""

connection_reused: contextvars.ContextVar[bool] = contextvars.ContextVar("reused", default=False)
"""Whether the request of this task went out on a connection that an earlier one had left."""

request_target: contextvars.ContextVar[str] = contextvars.ContextVar("target")
"""Path and query of this task's request, as they were written."""
current_response: contextvars.ContextVar[aiohttp.ClientResponse] = contextvars.ContextVar("answer")
"""What the request of this task was answered with."""


def new_session() -> aiohttp.ClientSession:
    """Make the connection pool: no limit, or a thousand streams would wait for one another; no cookies, no proxies."""
    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(_on_connection_reuse)
    tracing.on_request_end.append(_on_request_end)
    return aiohttp.ClientSession(
        trace_configs=[tracing],
        middlewares=[_send_target_verbatim],
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("accept", "user-agent", "content-type"),
        trust_env=False,
    )


async def _send_target_verbatim(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Ask for the address as it was written: aiohttp would decode and encode it anew, and lose a `%2F` on the way."""
    request.url = yarl.URL(str(request.url.origin()) + request_target.get(), encoded=True)
    return await handler(request)


async def _on_connection_reuse(*_: object) -> None:
    connection_reused.set(True)


async def _on_request_end(_session: object, _context: object, ended: aiohttp.TraceRequestEndParams) -> None:
    """Keep the answer, and break its body off when the connection closes: after malformed framing aiohttp does not."""
    current_response.set(ended.response)
    content, connection = ended.response.content, ended.response.connection
    protocol = None if connection is None else connection.protocol
    if protocol is None:
        return
    closed = protocol.closed
    if closed is None:
        _fail_body(content)
        return

    def lost(_: object) -> None:
        _fail_body(content)

    def whole() -> None:
        closed.remove_done_callback(lost)  # a kept connection must not remember every body that it carried

    closed.add_done_callback(lost)
    closed.remove_done_callback(_retrieve_exception)  # once is enough for a kept connection
    closed.add_done_callback(_retrieve_exception)
    content.on_eof(whole)


def _retrieve_exception(closed: "asyncio.Future[None]") -> None:
    """Look at why a connection has closed: asyncio logs an error that nobody has looked at."""
    if not closed.cancelled():
        closed.exception()


def _fail_body(content: aiohttp.StreamReader) -> None:
    if not content.is_eof() and content.exception() is None:
        content.set_exception(aiohttp.ClientPayloadError(MALFORMED_FRAMING))
