"""One case: what is asked, with which tools, and which calls answer it; and the short form in which files hold it.

Rule: a line of a file says nothing twice: tools are named, long results are documents, phrasings share their answer.
Neighbours: `suite` reads the files; `scoring` compares a reply with `expected`.
"""

import json
from collections.abc import Callable, Iterator, Sequence

import msgspec

from fcshim.events import JSON
from fcshim.messages import Tool

DOCUMENT_PREFIX = "@"
"""Begins a result that stands in a file of its own."""
_NO_QUESTION = ("",)
"""The one phrasing of a line that asks nothing more: its history ends with results, which the model has to answer."""


class ExpectedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that is right: for each argument, the values that are."""

    name: str
    arguments: dict[str, list[JSON]] = {}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One reply to ask for: `messages` of the Chat API, and `expected`, alternatives; one without calls means none."""

    id: str
    category: str
    messages: tuple[dict[str, JSON], ...]
    tools: tuple[Tool, ...]
    expected: tuple[tuple[ExpectedCall, ...], ...]
    tool_choice: JSON = "auto"


class CaseLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of a file of cases; `ask` has the phrasings of the last user turn, each a case of its own.

    `tools` are names, or `@` and the name of a file of tools, for all of them. `history` is what was said before: each
    item is one of `{"system": text}`, `{"user": text}`, `{"assistant": text}`, `{"calls": [{"name", "arguments"}]}` and
    `{"results": [text]}`, with `@` and a name for a document's text.
    """

    id: str
    tools: tuple[str, ...]
    ask: tuple[str, ...] = _NO_QUESTION
    history: tuple[dict[str, JSON], ...] = ()
    expected: tuple[tuple[ExpectedCall, ...], ...]
    tool_choice: JSON = "auto"


def expand(line: CaseLine, category: str, tools: tuple[Tool, ...], document: Callable[[str], str]) -> list[Case]:
    """Make the line's cases: the first has its id, the others `b`, `c`, ... behind it."""
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
    made = 0
    waiting: list[str] = []
    for item in history:
        match item:
            case {"calls": list(calls)}:
                waiting = [f"call_{made + position}" for position in range(1, len(calls) + 1)]
                made += len(calls)
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
