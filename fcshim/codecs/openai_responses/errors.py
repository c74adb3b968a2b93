"""Errors of the Responses API: bodies as the Chat API has them, and an event for streams.

Rule: the event has the documented fields and, beside them, the object `error`: at that the official client raises
instead of ending its loop as if all were well.
Neighbours: `openai_chat.errors` writes bodies, `faults` reads them.
"""

from fcshim.events import JSON, Error


def error_event_fields(error: Error) -> dict[str, JSON]:
    """Give the fields of the event that tells of an error."""
    inner = {"type": error.kind, "code": "server_error", "message": error.message, "param": None}
    return {"code": "server_error", "message": error.message, "param": None, "error": inner}
