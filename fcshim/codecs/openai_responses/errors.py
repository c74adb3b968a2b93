"""The `error` event of the Responses API; error bodies are those of the Chat API.

Rule: the event has the documented fields and an additional object `error`: without that the official client does not
raise, but ends its loop as after a complete response.
"""

from fcshim.events import JSON, Error


def error_event_fields(error: Error) -> dict[str, JSON]:
    """Return the fields of the `error` event."""
    inner = {"type": error.kind, "code": "server_error", "message": error.message, "param": None}
    return {"code": "server_error", "message": error.message, "param": None, "error": inner}
