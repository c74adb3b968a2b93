"""The form in which a client wants the reply's text to be: its `response_format`, in the words of the Chat API.

Rule: what says no schema that can be held to is left as it came; calls are no text, so it says nothing about them.
Neighbours: every codec translates its own words for it; `constraint` holds the reply to it.
"""

import msgspec

from fcshim.events import JSON
from fcshim.messages import Request
from fcshim.schema.limits import DEFAULT_TOOL_LIMITS, exceeds_depth

FIELD = "response_format"
_ANY_OBJECT: dict[str, JSON] = {"type": "object"}


def requested_schema(request: Request) -> JSON:
    """Give the schema of the JSON that the reply's text is to be, None where it is to be any text."""
    match request.extra.get(FIELD):
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return None if exceeds_depth(schema, DEFAULT_TOOL_LIMITS.schema_depth) else schema
        case {"type": "json_object", "schema": dict(schema)}:  # as llama.cpp and others have it
            return None if exceeds_depth(schema, DEFAULT_TOOL_LIMITS.schema_depth) else schema
        case {"type": "json_object"}:
            return _ANY_OBJECT
    return None


def is_any_object(document: JSON) -> bool:
    """Tell whether nothing was said but that the text is an object."""
    return document is _ANY_OBJECT


def without_format(request: Request) -> Request:
    """Give the request without a form for its text: where the reply is to be a call, it would forbid that."""
    extra = {name: value for name, value in request.extra.items() if name != FIELD}
    verbatim = request.verbatim
    if "ollama" in verbatim:
        own = {name: value for name, value in verbatim["ollama"].items() if name != "format"}
        verbatim = {**verbatim, "ollama": own}
    return msgspec.structs.replace(request, extra=extra, verbatim=verbatim)
