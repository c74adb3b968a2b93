"""Errors of the Chat API: ours written in its form.

Rule: the kind of a request's fault that is not the usual one is its `code`.
Neighbours: `faults` reads those of upstreams.
"""

import msgspec

from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.errors import FcshimError, RequestError


def write_error(error: FcshimError) -> bytes:
    """Give the error body `{"error": {message, type, param, code}}`."""
    asked_wrongly = isinstance(error, RequestError) or error.kind == CONTEXT_LENGTH
    kind = RequestError.kind if asked_wrongly else error.kind
    code = error.kind if error.kind != kind else None
    param = error.param if isinstance(error, RequestError) else None
    return msgspec.json.encode({"error": {"message": error.message, "type": kind, "param": param, "code": code}})
