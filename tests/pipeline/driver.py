"""Drives an `Exchange` with scripted replies: records what is sent upstream and what the client sees.

Rule: replies are bytes as an upstream sends them, split as the test says.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.events import Event
from fcshim.messages import Request, TextPart, Tool, ToolChoice, UserMessage
from fcshim.pipeline.backends import GENERIC, Backend
from fcshim.pipeline.exchange import Exchange, ExchangeState
from fcshim.pipeline.shim import ParserOptions, prepare_shim
from tests.scripted import end_chunks, text_chunk

ADD = Tool("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
SEND = Tool("send", "Send.", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
REQUIRED = ToolChoice("required")
HELLO = UserMessage((TextPart("hello"),))


def call(name: str = "add", arguments: str = '{"a": 1}') -> str:
    """Write a call in the dialect `function_call`."""
    return f'<function_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</function_call>'


@dataclass(frozen=True)
class ScriptedReply:
    """One reply of the model: its pieces of text and its finish reason."""

    pieces: tuple[str, ...]
    reason: str = "stop"


def reply(*pieces: str, reason: str = "stop") -> ScriptedReply:
    return ScriptedReply(pieces, reason)


@dataclass
class DriveResult:
    """The client's events for each upstream read, and the bodies that were sent upstream."""

    reads: list[list[Event]] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)

    @property
    def events(self) -> list[Event]:
        return [event for read in self.reads for event in read]


def new_exchange(
    *,
    max_retries: int = 1,
    buffered: bool = False,
    dialect: str = "function_call",
    arguments: Any = "stream",
    invalid_calls: Any = "deliver",
    backend: Backend = GENERIC,
    open_reasoning_tag: str = "",
    **fields: Any,
) -> Exchange:
    request = Request(model="m", **({"messages": (HELLO,), "tools": (ADD, SEND)} | fields))
    ids = map("call_{}".format, itertools.count()).__next__
    options = ParserOptions(
        rescue=True,
        open_reasoning_tag=open_reasoning_tag,
        arguments=arguments,
        invalid_calls=invalid_calls,
        new_id=ids,
    )
    shim = prepare_shim(request, dialect=dialect, backend=backend, options=options)
    exchange = Exchange(max_retries=max_retries, buffered=buffered)
    exchange.begin(shim, OPENAI_CHAT)
    return exchange


def drive(exchange: Exchange, *replies: ScriptedReply, backend: Backend = GENERIC, spare: bool = False) -> DriveResult:
    """Answer each attempt with the next reply; with `spare`, some replies may be left over."""
    result = DriveResult()
    waiting = iter(replies)
    while True:
        result.sent.append(msgspec.json.decode(exchange.attempt.upstream_request.body))
        _feed_reply(exchange, next(waiting), result)
        if exchange.state is not ExchangeState.DECIDING:
            break
        if not exchange.retry(backend):
            result.reads.append([event for _, event in exchange.give_up()])
            break
    assert spare or next(waiting, None) is None
    return result


def _feed_reply(exchange: Exchange, answer: ScriptedReply, result: DriveResult) -> None:
    reads: Sequence[bytes] = [*map(text_chunk, answer.pieces), end_chunks(answer.reason)]
    for data in reads:
        result.reads.append([event for _, event in exchange.feed(data)])
        if exchange.finished:
            break
    result.reads.append([event for _, event in exchange.close()])
