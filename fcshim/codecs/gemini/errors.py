"""Errors in the form of Google's APIs.

Rule: the status name follows from the HTTP status, as in all of Google's APIs.
"""

from fcshim.codecs.json_writer import write_json
from fcshim.errors import FcshimError

_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "INVALID_ARGUMENT",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def write_error(error: FcshimError) -> bytes:
    """Return the error body `{"error": {code, message, status, details}}`."""
    status_name = _STATUS_NAMES.get(error.status, "INTERNAL" if error.status >= 500 else "FAILED_PRECONDITION")
    return write_json({"error": {"code": error.status, "message": error.message, "status": status_name, "details": []}})
