"""Errors in the form of the Messages API.

The type follows from the HTTP status, as the API documents it; the SDKs choose their exceptions by both.
"""

import msgspec

from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.errors import FcshimError, RequestError
from fcshim.events import JSON

THREAD_UNSUPPORTED = "thread_unsupported_request"
"""The error code on which the SDKs send the whole history again instead of a thread's next message."""

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error_dict(error: FcshimError) -> dict[str, JSON]:
    """Return `{"type": "error", "error": {"type", "message"}}`."""
    is_client_fault = isinstance(error, RequestError) or error.kind == CONTEXT_LENGTH
    kind = _ERROR_TYPES.get(
        error.status, "invalid_request_error" if is_client_fault and error.status < 500 else "api_error"
    )
    # Claude Code compacts the conversation when it reads these words.
    prefix = "prompt is too long: " if error.kind == CONTEXT_LENGTH else ""
    body: dict[str, JSON] = {"type": kind, "message": prefix + error.message}
    if error.kind == THREAD_UNSUPPORTED:
        body["details"] = {"error_code": THREAD_UNSUPPORTED, "unsupported": ["threads"]}
    return {"type": "error", "error": body, "request_id": None}


def write_error(error: FcshimError) -> bytes:
    """Return the error body."""
    return msgspec.json.encode(error_dict(error))
