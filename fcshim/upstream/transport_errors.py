"""What goes wrong on the way to an endpoint, and how it is told.

Rule: every fault of the transport has words for whoever runs fcshim: what happened, and with whom.
Neighbours: `reply` and `endpoint` meet the faults, `session` makes one of its own.
"""

import os

import aiohttp
import httpx

from fcshim.errors import UpstreamError

TRANSPORT_ERRORS = (httpx.HTTPError, aiohttp.ClientError, OSError)
"""What the transport raises."""
MALFORMED_FRAMING = "its framing is malformed"
"""What is said of a body whose end cannot be told."""


def to_upstream_error(error: Exception, connect: float) -> UpstreamError:
    """Say what went wrong in our words; `connect` is how long was waited for a connection.

    The transport's own classes are the truth; httpx's are made from them.
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
    """Say what the system says of an error, without what asyncio adds (the address, as Python writes it)."""
    number = error.errno or 0  # a name that is not found has a negative one, of another table
    return os.strerror(number) if number > 0 else error.strerror or str(error)
