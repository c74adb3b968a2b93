"""Limits on what a request may contain, shared by all codecs.

Rule: whatever a client can make grow has a limit here, with a default and its reason. The server limits the size of the
body itself.
"""

from collections.abc import Sequence

import msgspec

from fcshim.errors import RequestError
from fcshim.messages import Tool
from fcshim.schema.limits import exceeds_depth

MAX_NOTES = 8
"""Log lines about one request: the log is read by people, and a request can cause thousands of notes."""


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one request."""

    tools: int = 128
    """The limit of OpenAI's own API; small models fail with far fewer."""
    schema_bytes: int = 256 * 1024
    """All tool definitions of a request together: about 64,000 tokens of prompt. Schema bombs are larger."""
    schema_depth: int = 32
    """Levels of nesting in one schema; real ones stay under 15. Deeper ones attack recursive readers."""
    choices: int = 128
    """The limit of OpenAI's own API for `n`; each choice has a parser of its own."""


DEFAULT_LIMITS = RequestLimits()


def check_tools(tools: Sequence[Tool], limits: RequestLimits) -> None:
    """Refuse tools beyond the limits. Raises `RequestError`."""
    if len(tools) > limits.tools:
        raise RequestError(f"tools: at most {limits.tools} are allowed, got {len(tools)}", param="tools")
    size = 0
    for position, tool in enumerate(tools):
        if exceeds_depth(tool.parameters, limits.schema_depth):
            raise RequestError(
                f"tools[{position}]: the schema is nested deeper than {limits.schema_depth} levels",
                param=f"tools[{position}].parameters",
            )
        size += len(msgspec.json.encode(tool))
    if size > limits.schema_bytes:
        raise RequestError(
            f"tools: names, descriptions and schemas take {size} bytes, {limits.schema_bytes} are allowed",
            param="tools",
        )
