"""Errors in Ollama's form: a single message.

Rule: the message alone must say what happened; the HTTP status is set by the server.
"""

import msgspec

from fcshim.errors import FcshimError


def write_error(error: FcshimError) -> bytes:
    """Return the error body `{"error": message}`."""
    return msgspec.json.encode({"error": error.message})
