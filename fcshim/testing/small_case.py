"""Makes a small test case of a recorded request: the shortest text that the parser still reads in the same way.

Rule: a case has the text that the model wrote, not what a client got, so that it can be read by any parser.
"""

from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.dispatch import make_shim
from fcshim.errors import ConfigError
from fcshim.events import JSON, Event, Reasoning, Stop, StopReason, Text, ToolCallEnd
from fcshim.messages import Tool, as_function
from fcshim.parse.stream import StreamParser
from fcshim.server.replay import read_record, request_of
from fcshim.testing.shrinking import shrink

Reading: TypeAlias = tuple[tuple[str, ...], ...]
"""How a text was read: its parts in order. A call has its name, the kind of its error, and what was coerced."""


class SmallCase(NamedTuple):
    """A reply as a test case; `options` are those of `StreamParser`, and `tools` the functions of the Chat API."""

    input: str
    options: dict[str, JSON]
    tools: list[dict[str, JSON]]
    stop_reason: StopReason
    calls: list[dict[str, JSON]]
    """The calls that run: `{call, value}`."""

    def as_vector(self, name: str) -> dict[str, JSON]:
        """Return the case in the form of the parser's test vectors; text after it may change how it is read."""
        calls = [{**call, "error": None} for call in self.calls]
        return {"name": name, **self._asdict(), "calls": calls, "last": True}


def reading_of(events: list[Event]) -> Reading:
    """Return how a reply was read, without its texts and values."""
    parts: list[tuple[str, ...]] = []
    for event in events:
        match event:
            case Text() | Reasoning():
                kind = ("text" if isinstance(event, Text) else "reasoning",)
                if parts[-1:] != [kind]:
                    parts.append(kind)
            case ToolCallEnd(tool_call_name=name, error=error, coerced=coerced):
                parts.append(("call", name, error.kind if error else "", *(f"{each.path}" for each in coerced)))
            case Stop(stop_reason=reason):
                parts.append(("stop", reason))
    return tuple(parts)


def small_case(file: Path, *, attempt: int = 0) -> SmallCase:
    """Make a small case of a file that `fcshim serve --record` has written.

    `attempt` is the attempt whose reply is taken, the first by default. Raises `ConfigError` for a file that is no
    record, and for a reply that was relayed, withheld, cut or parsed by the upstream.
    """
    record = read_record(file)
    if record.request.relayed or record.request.withheld or record.end.cut:
        raise ConfigError(f"{file}: expected a recorded reply, {record.why_not_replayed() or 'it was relayed'}")
    if not 0 <= attempt < len(record.attempts) or record.attempts[attempt].native:
        raise ConfigError(
            f"{file}: expected an attempt with the tools in the prompt, there is none with number {attempt}"
        )
    decoder = UPSTREAMS[record.request.upstream_api].codec.decoder()
    events = [event for _, event in [*decoder.feed(record.attempts[attempt].reply.encode()), *decoder.close()]]
    text = "".join(event.text for event in events if isinstance(event, Text))
    ends: list[StopReason] = [event.stop_reason for event in events if isinstance(event, Stop)]
    shim = make_shim(request_of(record.request), record.request.settings)
    options: dict[str, JSON] = {"dialect": shim.dialect.name, "rescue": shim.options.rescue}
    if shim.options.open_reasoning_tag:
        options["open_reasoning_tag"] = shim.options.open_reasoning_tag
    return shorten(text, list(shim.tools), options, ends[0] if ends else "complete")


def shorten(text: str, tools: list[Tool], options: dict[str, JSON], stop_reason: StopReason = "complete") -> SmallCase:
    """Shorten a reply, and leave out tools, as long as it is read in the same way."""

    def read(text: str, tools: list[Tool]) -> list[Event]:
        parser = StreamParser(tools=tools, **options)
        return parser.feed(text) + parser.close(stop_reason)

    wanted = reading_of(read(text, tools))
    for tool in list(tools):
        fewer = [each for each in tools if each is not tool]
        if fewer and reading_of(read(text, fewer)) == wanted:
            tools = fewer
    text = shrink(text, lambda shorter: reading_of(read(shorter, tools)) == wanted)
    ends = [event for event in read(text, tools) if isinstance(event, ToolCallEnd) and event.error is None]
    calls = [
        {"call": end.tool_call_name, "value": msgspec.json.decode(end.tool_call_arguments_complete or "{}")}
        for end in ends
    ]
    return SmallCase(
        text,
        options,
        [{"type": "function", "function": as_function(tool)} for tool in tools],
        stop_reason,
        calls,
    )
