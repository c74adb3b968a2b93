"""Driving a request with its tries by hand: what the upstream is sent, and what the client sees.

Rule: replies are bytes as an upstream sends them, cut as the test says.
Neighbours: `tests.scripted` writes the bytes, the tests of this folder say what the model answers.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.events import Event
from fcshim.exchange import Exchange
from fcshim.messages import Request, TextPart, Tool, ToolChoice, UserMessage
from fcshim.retry import Tries, tried
from fcshim.servers import GENERIC, Server
from fcshim.shim import Shim
from tests.scripted import ended, said

ADD = Tool("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
SEND = Tool("send", "Send.", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
REQUIRED = ToolChoice("required")
HELLO = UserMessage((TextPart("hello"),))


def call(name: str = "add", arguments: str = '{"a": 1}') -> str:
    """Write a call as fcshim's own format has it."""
    return f'<function_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</function_call>'


@dataclass(frozen=True)
class Said:
    """One reply of the model: its pieces, and why it ended."""

    pieces: tuple[str, ...]
    reason: str = "stop"


def reply(*pieces: str, reason: str = "stop") -> Said:
    return Said(pieces, reason)


@dataclass
class Seen:
    """What came of it: the client's events, per upstream read, and the bodies that were sent."""

    reads: list[list[Event]] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)

    @property
    def events(self) -> list[Event]:
        return [event for read in self.reads for event in read]


def asked(
    *,
    max_retries: int = 1,
    whole: bool = False,
    dialect: str = "function_call",
    arguments: Any = "stream",
    server: Server = GENERIC,
    in_reasoning: str = "",
    **fields: Any,
) -> Exchange | Tries:
    request = Request(model="m", messages=(HELLO,), **({"tools": (ADD, SEND)} | fields))
    ids = map("call_{}".format, itertools.count()).__next__
    shim = Shim(
        request,
        dialect=dialect,
        rescue=True,
        in_reasoning=in_reasoning,
        arguments=arguments,
        new_id=ids,
        server=server,
    )
    return tried(request, upstream=OPENAI_CHAT, stage=shim, max_retries=max_retries, whole=whole)


def drive(tries: Exchange | Tries, *replies: Said, server: Server = GENERIC, spare: bool = False) -> Seen:
    """Answer every try with the next of the replies; there must be as many as are asked for, or some to `spare`."""
    seen = Seen()
    waiting = iter(replies)
    while True:
        seen.sent.append(msgspec.json.decode(tries.outgoing.body))
        _answer(tries, next(waiting), seen)
        if not (isinstance(tries, Tries) and tries.again):
            break
        if not tries.ask_again(server):
            seen.reads.append([event for _, event in tries.close()])
            break
    assert spare or next(waiting, None) is None
    return seen


def _answer(tries: Exchange | Tries, answer: Said, seen: Seen) -> None:
    reads: Sequence[bytes] = [*map(said, answer.pieces), ended(answer.reason)]
    for data in reads:
        seen.reads.append([event for _, event in tries.feed(data)])
        if tries.finished:
            break
    seen.reads.append([event for _, event in tries.close()])
