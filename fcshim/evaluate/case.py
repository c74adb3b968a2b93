"""A case: messages, tools and the expected calls; and `CaseLine`, the compact form of a case in the suite's files.

A line repeats nothing: it names its tools, long results are documents, and phrasings share their expected calls.
"""

import json
from collections.abc import Callable, Iterator, Sequence

import msgspec

from fcshim.events import JSON
from fcshim.messages import Tool

DOCUMENT_PREFIX = "@"
"""Prefix of a result that is the name of a document."""
_NO_QUESTION = ("",)
"""The only phrasing of a line without a last user turn: its history ends with results, which the model replies to."""


class ExpectedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that is expected, with the accepted values of each argument."""

    name: str
    arguments: dict[str, list[JSON]] = {}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `messages` are those of the Chat API; `expected` are alternatives, an empty one means no call."""

    id: str
    category: str
    messages: tuple[dict[str, JSON], ...]
    tools: tuple[Tool, ...]
    expected: tuple[tuple[ExpectedCall, ...], ...]
    tool_choice: JSON = "auto"


class CaseLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of a file of cases; each phrasing of the last user turn in `ask` is a case.

    `tools` are names of tools, or `@` and the name of a file, for all tools in it. `history` are the turns before: each
    item is one of `{"system": text}`, `{"user": text}`, `{"assistant": text}`, `{"calls": [{"name", "arguments"}]}` and
    `{"results": [text]}`, where `@` and a name stand for the text of a document.
    """

    id: str
    tools: tuple[str, ...]
    ask: tuple[str, ...] = _NO_QUESTION
    history: tuple[dict[str, JSON], ...] = ()
    expected: tuple[tuple[ExpectedCall, ...], ...]
    tool_choice: JSON = "auto"


def expand(line: CaseLine, category: str, tools: tuple[Tool, ...], document: Callable[[str], str]) -> list[Case]:
    """Return the cases of a line: the first has the id of the line, the others append `b`, `c` and so on."""
    history = tuple(_messages(line.history, document))
    return [
        Case(
            id=line.id + (chr(ord("a") + position) if position else ""),
            category=category,
            messages=(*history, {"role": "user", "content": ask}) if ask else history,
            tools=tools,
            expected=line.expected,
            tool_choice=line.tool_choice,
        )
        for position, ask in enumerate(line.ask)
    ]


def _messages(history: Sequence[dict[str, JSON]], document: Callable[[str], str]) -> Iterator[dict[str, JSON]]:
    call_count = 0
    waiting: list[str] = []
    for item in history:
        match item:
            case {"calls": list(calls)}:
                waiting = [f"call_{call_count + position}" for position in range(1, len(calls) + 1)]
                call_count += len(calls)
                past = [_past_call(id_, call) for id_, call in zip(waiting, calls, strict=True)]
                yield {"role": "assistant", "content": None, "tool_calls": past}
            case {"results": list(results)}:
                for id_, result in zip(waiting, results, strict=True):
                    text = document(result[1:]) if result.startswith(DOCUMENT_PREFIX) else result
                    yield {"role": "tool", "tool_call_id": id_, "content": text}
            case {"system": str(text)} | {"user": str(text)} | {"assistant": str(text)}:
                yield {"role": next(iter(item)), "content": text}
            case _:
                raise ValueError(f"no message: {item!r}")


def _past_call(id_: str, call: dict[str, JSON]) -> JSON:
    arguments = json.dumps(call["arguments"], ensure_ascii=False)
    return {"id": id_, "type": "function", "function": {"name": call["name"], "arguments": arguments}}
