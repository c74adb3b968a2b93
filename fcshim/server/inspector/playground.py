"""Parses a text that somebody edits in the page."""

import itertools
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fcshim.errors import ConfigError, RequestError
from fcshim.events import JSON
from fcshim.messages import as_tools
from fcshim.parse.dialects import AUTO, DIALECTS
from fcshim.parse.stream import StreamParser
from fcshim.server.inspector.parsed_text import fed_events, find_spans, segments

MAX_PLAYGROUND_BODY = 1_000_000
"""Bytes of a request: a text of that size is parsed in about a second."""
MAX_EVENTS = 5_000
"""Events that the page gets."""


class PlaygroundRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text, and how to parse it: in pieces of `chunk` characters, 0 for one."""

    text: str
    dialect: str = "function_call"
    tools: list[dict[str, JSON]] | None = None
    rescue: bool = False
    reasoning: Literal["ignore", "recover", "promote"] = "ignore"
    open_reasoning_tag: str = ""
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
    text = asked.text.encode("utf-8", "replace").decode()
    size = asked.chunk or max(len(text), 1)
    ends = [*range(size, len(text), size), len(text)]
    events = itertools.islice(fed_events(_parser(asked), text, size, asked.stop_reason), MAX_EVENTS)
    return {
        "segments": segments(text, find_spans(_parser(asked), text, asked.stop_reason), ends),
        "events": [{"at": at, "event": event} for at, event in events],
    }


def _parser(asked: PlaygroundRequest) -> StreamParser:
    try:
        return StreamParser(
            asked.dialect,
            None if asked.tools is None else as_tools(asked.tools),
            rescue=asked.rescue,
            reasoning=asked.reasoning,
            open_reasoning_tag=asked.open_reasoning_tag,
        )
    except ConfigError as error:
        raise RequestError(error.message) from None
