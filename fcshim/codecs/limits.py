"""How much a client may ask of us: limits on what a request carries, alike for every codec.

Rule: whatever a client can make grow has a limit here, with a default and its reason.
Neighbours: the codecs' request readers; the server limits the size of the body itself.
"""

from collections.abc import Sequence

import msgspec

from fcshim.errors import RequestError
from fcshim.messages import Tool
from fcshim.schema.limits import exceeds_depth

MAX_NOTES = 8
"""Lines about one request in the log: it is for people, and a request can hold thousands of such things."""


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one request."""

    tools: int = 128
    """What OpenAI's own API allows; small models are lost long before."""
    schema_bytes: int = 256 * 1024
    """All schemas of a request together: some 64,000 tokens of prompt. Schema bombs are larger."""
    schema_depth: int = 32
    """Levels of nesting in one schema; real ones stay under 15. Deep ones aim at recursive readers."""
    choices: int = 128
    """What OpenAI's own API allows for `n`; each choice has a parser of its own."""


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
