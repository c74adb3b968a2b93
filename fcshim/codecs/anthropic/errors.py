"""Errors of the Messages API: ours written in its form.

Rule: the type follows from the HTTP status, as the API documents it; SDKs choose their exceptions by both.
Neighbours: the codec; errors of upstreams are read by the reader that all codecs share.
"""

import msgspec

from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.errors import FcshimError, RequestError
from fcshim.events import JSON

THREAD_UNSUPPORTED = "thread_unsupported_request"
"""The kind of the refusal upon which the SDKs send the whole history instead of a thread's next message."""

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
    """Give `{"type": "error", "error": {"type", "message"}}`."""
    asked_wrongly = isinstance(error, RequestError) or error.kind == CONTEXT_LENGTH
    kind = _ERROR_TYPES.get(
        error.status, "invalid_request_error" if asked_wrongly and error.status < 500 else "api_error"
    )
    # Claude Code makes the conversation shorter when it reads these words.
    lead = "prompt is too long: " if error.kind == CONTEXT_LENGTH else ""
    told: dict[str, JSON] = {"type": kind, "message": lead + error.message}
    if error.kind == THREAD_UNSUPPORTED:
        told["details"] = {"error_code": THREAD_UNSUPPORTED, "unsupported": ["threads"]}
    return {"type": "error", "error": told, "request_id": None}


def write_error(error: FcshimError) -> bytes:
    """Give the error body."""
    return msgspec.json.encode(error_dict(error))
