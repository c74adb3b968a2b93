"""Parses a text that somebody edits in the page."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import as_tools
from fcshim.parse.dialects import AUTO, DIALECTS
from fcshim.parse.stream import StreamParser
from fcshim.server.inspector.parsed_text import parse_text, segments

MAX_PLAYGROUND_BODY = 1_000_000
"""Bytes of a request: a text of that size is parsed in about a second."""


class PlaygroundRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text, and how to parse it; `chunk` cuts it for the colours only, 0 does not."""

    text: str
    dialect: str = "function_call"
    tools: list[dict[str, JSON]] | None = None
    rescue: bool = False
    reasoning: Literal["ignore", "recover", "promote"] = "ignore"
    in_reasoning: str = ""
    chunk: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    stop_reason: Literal["complete", "max_tokens", "stop_sequence", "content_filter"] = "complete"


def parse_for_playground(body: bytes) -> dict[str, JSON]:
    """Parse what the page sent. Raises `RequestError`."""
    try:
        asked = msgspec.json.decode(body, type=PlaygroundRequest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"expected a text and how to parse it: {error}") from None
    if asked.dialect != AUTO and asked.dialect not in DIALECTS:  # never a path: this comes from a browser
        raise RequestError(f"dialect: expected one of {', '.join([AUTO, *DIALECTS])}", param="dialect")
    parser = StreamParser(
        asked.dialect,
        None if asked.tools is None else as_tools(asked.tools),
        rescue=asked.rescue,
        reasoning=asked.reasoning,
        in_reasoning=asked.in_reasoning,
    )
    text = asked.text.encode("utf-8", "replace").decode()
    parsed = parse_text(parser, text, asked.stop_reason)
    size = asked.chunk or max(len(text), 1)
    ends = [*range(size, len(text), size), len(text)]
    return {
        "segments": segments(text, parsed.spans, ends),
        "events": [{"at": at, "event": event} for at, event in parsed.events],
    }
