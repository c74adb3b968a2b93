"""Errors of the HTTP transport, translated to `UpstreamError`.

Rule: every message tells the operator what happened and with which endpoint.
"""

import os

import aiohttp
import httpx

from fcshim.errors import UpstreamError

TRANSPORT_ERRORS = (httpx.HTTPError, aiohttp.ClientError, OSError)
"""The exceptions that the transport raises."""
MALFORMED_FRAMING = "its framing is malformed"
"""The message for a body whose end cannot be determined."""


def to_upstream_error(error: Exception, connect: float) -> UpstreamError:
    """Translate a transport error; `connect` is the connect timeout in seconds.

    The aiohttp exception is used if there is one: httpx derives its own from it and loses details.
    """
    cause = error.__cause__ if isinstance(error, httpx.HTTPError) and error.__cause__ else error
    match cause:
        case aiohttp.ServerTimeoutError():
            wait = f"the upstream accepted no connection within {connect:g} s"
            return UpstreamError(wait, status=504, kind="timeout")
        case aiohttp.ClientConnectorError():
            message = f"cannot connect to the upstream at {cause.host}:{cause.port}: {os_error_reason(cause.os_error)}"
        case aiohttp.ClientResponseError():
            message = f"the upstream's answer is not HTTP: {cause.message!r:.200}"
        case aiohttp.ServerDisconnectedError() | OSError():
            message = "the upstream closed the connection"
        case aiohttp.ClientPayloadError() if str(cause) != MALFORMED_FRAMING:
            message = "the upstream's reply broke off: the connection was closed before its end"
        case _:
            message = f"the upstream's reply broke off: {str(cause) or type(cause).__name__:.200}"
    return UpstreamError(message, lost=True)


def os_error_reason(error: OSError) -> str:
    """Return the system's message for an error, without the address that asyncio adds."""
    number = error.errno or 0  # an unresolved host name has a negative number, of getaddrinfo
    return os.strerror(number) if number > 0 else error.strerror or str(error)
