"""Parses a text that somebody edits in the page."""

import itertools
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from fcshim.config import ModelConfig
from fcshim.config.model_settings import ArgumentsPolicy, ReasoningPolicy
from fcshim.errors import ConfigError, RequestError
from fcshim.events import JSON, StopReason
from fcshim.messages import as_tools
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import AUTO, DIALECTS
from fcshim.parse.stream import StreamParser
from fcshim.prompt.dialect_folder import chosen_dialect
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
    reasoning: ReasoningPolicy = "ignore"
    open_reasoning_tag: str = ""
    arguments: ArgumentsPolicy = "stream"
    chunk: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    stop_reason: StopReason = "complete"


class PlaygroundSettings(msgspec.Struct, frozen=True):
    """The settings by which replies are read, as the page shows and sends them; `dialect` is a name."""

    dialect: str
    rescue: bool
    reasoning: ReasoningPolicy
    open_reasoning_tag: str
    arguments: ArgumentsPolicy


def settings_of(model: ModelConfig) -> PlaygroundSettings:
    """Return the settings of a model."""
    dialect = AUTO if model.dialect == AUTO else chosen_dialect(model.dialect, "").name
    return PlaygroundSettings(dialect, model.rescue, model.reasoning, model.open_reasoning_tag, model.arguments)


def dialects_for(model: ModelConfig) -> dict[str, str | Dialect]:
    """Return the dialects that the page may choose, by name: all known ones, and the operator's own."""
    known: dict[str, str | Dialect] = {name: name for name in (AUTO, *DIALECTS)}
    if model.dialect != AUTO:
        chosen = chosen_dialect(model.dialect, "")
        known.setdefault(chosen.name, chosen)
    return known


def parse_for_playground(body: bytes, dialects: Mapping[str, str | Dialect]) -> dict[str, JSON]:
    """Parse what the page sent, in one of `dialects`. Raises `RequestError`."""
    try:
        asked = msgspec.json.decode(body, type=PlaygroundRequest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"expected a text and how to parse it: {error}") from None
    if asked.dialect not in dialects:  # never a path: this comes from a browser
        raise RequestError(f"dialect: expected one of {', '.join(dialects)}", param="dialect")
    text = asked.text.encode("utf-8", "replace").decode()
    size = asked.chunk or max(len(text), 1)
    ends = [*range(size, len(text), size), len(text)]
    dialect = dialects[asked.dialect]
    events = itertools.islice(fed_events(_parser(asked, dialect), text, size, asked.stop_reason), MAX_EVENTS)
    return {
        "segments": segments(text, find_spans(_parser(asked, dialect), text, asked.stop_reason), ends),
        "events": [{"at": at, "event": event} for at, event in events],
    }


def _parser(asked: PlaygroundRequest, dialect: str | Dialect) -> StreamParser:
    try:
        return StreamParser(
            dialect,
            None if asked.tools is None else as_tools(asked.tools),
            rescue=asked.rescue,
            reasoning=asked.reasoning,
            open_reasoning_tag=asked.open_reasoning_tag,
            arguments=asked.arguments,
        )
    except ConfigError as error:
        raise RequestError(error.message) from None
