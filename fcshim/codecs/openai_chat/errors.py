"""Writing errors in the form of the Chat API.

Rule: errors caused by the request have the type `invalid_request_error`; a more specific kind becomes the `code`.
"""

import msgspec

from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.errors import FcshimError, RequestError


def write_error(error: FcshimError) -> bytes:
    """Return the error body `{"error": {message, type, param, code}}`."""
    caused_by_request = isinstance(error, RequestError) or error.kind == CONTEXT_LENGTH
    kind = RequestError.kind if caused_by_request else error.kind
    code = error.kind if error.kind != kind else None
    param = error.param if isinstance(error, RequestError) else None
    return msgspec.json.encode({"error": {"message": error.message, "type": kind, "param": param, "code": code}})
