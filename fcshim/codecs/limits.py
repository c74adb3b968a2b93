"""Limits on what a request and a reply may contain, shared by all codecs.

Rule: whatever a client or an upstream can make grow has a limit here, with a default and its reason. The server limits
the size of a request's body.
"""

from collections.abc import Sequence

import msgspec

from fcshim.codecs.sse import LINE_BYTES
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
    recalled_bytes: int = 64 * 2**20
    """Stored items that one request may load: as many as the store of replies holds by default."""
    choices: int = 128
    """The limit of OpenAI's own API for `n`; each choice has a parser of its own."""


class DecoderLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one upstream reply."""

    line_bytes: int = LINE_BYTES
    """Bytes of one event of the stream, or of one whole JSON body."""
    call_chars: int = LINE_BYTES
    """Characters of the arguments of one native call: as many as one event may have."""
    choices: int = 128
    """The limit of OpenAI's own API for `n`."""


DEFAULT_LIMITS = RequestLimits()
DEFAULT_DECODER_LIMITS = DecoderLimits()


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
