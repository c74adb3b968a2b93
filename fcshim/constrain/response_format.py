"""The client's `response_format`, in the terms of the Chat Completions API; every codec translates its own field to it.

Rule: a format without a schema that can be enforced is passed on unchanged. It applies to the reply's text, not to
calls.
"""

import msgspec

from fcshim.events import JSON
from fcshim.messages import Request
from fcshim.schema.limits import DEFAULT_TOOL_LIMITS, exceeds_depth

FIELD = "response_format"
_ANY_OBJECT: dict[str, JSON] = {"type": "object"}


def requested_schema(request: Request) -> JSON:
    """Return the schema of the JSON document that the client requests, or None."""
    match request.extra.get(FIELD):
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return None if exceeds_depth(schema, DEFAULT_TOOL_LIMITS.schema_depth) else schema
        case {"type": "json_object", "schema": dict(schema)}:  # llama.cpp's variant
            return None if exceeds_depth(schema, DEFAULT_TOOL_LIMITS.schema_depth) else schema
        case {"type": "json_object"}:
            return _ANY_OBJECT
    return None


def is_any_object(document: JSON) -> bool:
    """Return whether a requested schema is the one of plain `json_object`."""
    return document is _ANY_OBJECT


def without_format(request: Request) -> Request:
    """Return the request without its response format, which would keep an upstream from writing calls."""
    extra = {name: value for name, value in request.extra.items() if name != FIELD}
    verbatim = request.verbatim
    if "ollama" in verbatim:
        own = {name: value for name, value in verbatim["ollama"].items() if name != "format"}
        verbatim = {**verbatim, "ollama": own}
    return msgspec.structs.replace(request, extra=extra, verbatim=verbatim)
