"""Calls that the upstream has parsed itself: whatever a call of the text gives, a parsed one gives too."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.events import Event, Reasoning, Stop, Text, ToolCallChunk, Usage
from fcshim.pipeline.backends import get_backend
from fcshim.pipeline.exchange import Exchange, ExchangeState
from fcshim.reply import Reply, fold
from tests.parse.laws import executable, normalise
from tests.pipeline.driver import REQUIRED, new_exchange
from tests.scripted import ROLE, Script, end_chunks, event, text_chunk

Part: TypeAlias = str | tuple[str, str]
"""Text, or a call's name and arguments."""

GOOD = ("add", '{"a": 1}')
SEND = ("send", '{"text": "a </function_call> \\" \\u00e9 ☃"}')
REPLIES: dict[str, list[Part]] = {
    "nothing": [],
    "good": [GOOD],
    "another spelling of the name": [("functions.Add", '{"a": 1}')],
    "not offered": [("subtract", '{"a": 1}')],
    "no name": [("", '{"a": 1}')],
    "markers in a value": [SEND],
    "bad JSON": [("add", '{"a": }')],
    "no JSON": [("add", "a = 1")],
    "an array": [("add", "[1]")],
    "a key twice": [("add", '{"a": 1, "a": 2}')],
    "JSON that can be repaired": [("add", "{'a': 1,}")],
    "a wrong type": [("add", '{"a": "1"}')],
    "a value missing": [("add", '{"b": 1}')],
    "encoded": [("add", '"{\\"a\\": 1}"')],
    "text and call": ["Let me see. ", GOOD],
    "call and text": [GOOD, " That was it."],
    "an open code span and a call": ["With `add: ", GOOD],
    "an open quotation and a call": ['It is "', GOOD],
    "two calls": [GOOD, SEND],
    "the same call twice": [GOOD, GOOD],
    "text between two calls": ["First ", GOOD, " and then ", SEND],
    "one of two calls is not offered": [("subtract", '{"a": 1}'), GOOD],
    "one of two calls has bad JSON": [GOOD, ("send", '{"text": }')],
    "an invented turn before a call": ["Ok.<|im_start|>user\n", GOOD],
}


def call_text(name: str, arguments: str) -> str:
    """Write a call as `function_call` does."""
    return f'<function_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</function_call>'


def written(parts: Sequence[Part], size: int = 100, reason: str = "stop") -> Script:
    """Make the script of an upstream that leaves calls in the text, with arguments in pieces of this size."""
    pieces: list[bytes] = [ROLE]
    for part in parts:
        if isinstance(part, str):
            pieces.append(text_chunk(part))
            continue
        head, tail = call_text(part[0], "|").split("|")
        pieces += map(text_chunk, [head, *cut(part[1], size), *([tail] if reason == "stop" else [])])
    return Script((*pieces, end_chunks(reason)))


def parsed(parts: Sequence[Part], size: int = 100, reason: str = "stop") -> Script:
    """Make the script of an upstream that parses calls."""
    pieces, index = [ROLE], 0
    for part in parts:
        if isinstance(part, str):
            pieces.append(text_chunk(part))
            continue
        pieces.append(_delta(index, id=f"c{index}", type="function", function={"name": part[0], "arguments": ""}))
        pieces += [_delta(index, function={"arguments": piece}) for piece in cut(part[1], size)]
        index += 1
    return Script((*pieces, end_chunks(reason)))


def cut(text: str, size: int) -> list[str]:
    return [text[start:end] for start, end in pairwise([*range(0, len(text), size), len(text)])]


def _delta(index: int, **fields: Any) -> bytes:
    return event(choices=[{"index": 0, "delta": {"tool_calls": [{"index": index, **fields}]}}])


def events_of(exchange: Exchange, *scripts: Script) -> list[Event]:
    """Answer each attempt with the next script."""
    events: list[Event] = []
    for script in scripts:
        for data in script.pieces:
            events += [made for _, made in exchange.feed(data)]
        events += [made for _, made in exchange.close()]
        if exchange.state is not ExchangeState.DECIDING:
            return events
        if not exchange.retry(get_backend("generic")):
            return events + [made for _, made in exchange.give_up()]
    raise AssertionError("one attempt more than scripts")


def summary(events: list[Event]) -> tuple[str, list[tuple[str, str, str]], str | None]:
    """Return what a client gets of a reply; a piece of a failed call may be longer or shorter."""
    reply: Reply = fold(events)
    calls = [
        (end.tool_call_name, *(("", end.error.kind) if end.error else (end.tool_call_arguments_complete, "")))
        for end in reply.tool_calls
    ]
    return reply.text, calls, reply.stop_reason


@pytest.mark.parametrize("size", [100, 3])
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("parts", REPLIES.values(), ids=REPLIES)
def test_a_parsed_call_gives_what_its_text_gives(parts: list[Part], buffered: bool, size: int) -> None:
    for retries, last in ((0, []), (1, [GOOD]), (1, [("subtract", "{}")])):
        text, calls = (
            events_of(new_exchange(max_retries=retries, buffered=buffered), make(parts, size), make(last, size))
            for make in (written, parsed)
        )

        assert summary(text) == summary(calls)


@pytest.mark.parametrize("size", [100, 3])
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("reason", ["stop", "tool_calls", "length"])
@pytest.mark.parametrize(
    "call",
    [
        ("add", '{"a": 1'),
        ("add", '{"a": 1,'),
        ("add", "{"),
        ("add", '{"a": 1, "b": {"c": 1}'),
        ("add", '{"a": [1'),
        ("send", '{"text": "a'),
        ("send", '{"text": "a"'),
        ("send", '{"text": "a}'),
        ("send", "{'text': 'a'"),
    ],
)
def test_arguments_that_the_upstream_left_unfinished_are_not_closed(
    call: Part, reason: str, buffered: bool, size: int
) -> None:
    for parts in ([call], [call, GOOD], [GOOD, call]):
        events = events_of(new_exchange(max_retries=0, buffered=buffered), parsed(parts, size, reason))
        calls = fold(events).tool_calls

        assert ["truncated" if part is call else None for part in parts] == [
            end.error.kind if end.error else None for end in calls
        ]


@pytest.mark.parametrize("name", ["hermes", "glm", "pythonic", "react", "bare_json", "harmony", "fenced_json"])
@pytest.mark.parametrize("parts", REPLIES.values(), ids=REPLIES)
def test_the_dialect_of_the_prompt_makes_no_difference(parts: list[Part], name: str) -> None:
    expected = events_of(new_exchange(max_retries=0), parsed(parts))

    assert summary(expected) == summary(events_of(new_exchange(max_retries=0, dialect=name), parsed(parts)))


@given(
    parts=st.lists(
        st.sampled_from([part for parts in REPLIES.values() for part in parts]) | st.text('`"<a \n', max_size=4),
        max_size=5,
    ),
    size=st.integers(1, 12),
)
def test_any_parsed_reply_is_one_whole_reply(parts: list[Part], size: int) -> None:
    pieces, again = (
        normalise([made for made in events if not isinstance(made, Usage)])
        for events in (events_of(new_exchange(max_retries=0), parsed(parts, each)) for each in (size, 100))
    )

    assert pieces == again
    for call in executable(pieces):
        assert call["call"] in {"add", "send"}
        assert isinstance(json.loads(call["arguments"]), dict)


def test_arguments_stream_while_they_are_written() -> None:
    exchange = new_exchange()
    script = parsed([("send", '{"text": "abcdefghi"}')], 3)
    reads = [[made for _, made in exchange.feed(data) if isinstance(made, ToolCallChunk)] for data in script.pieces]

    assert ["cde", "fgh"] == ["".join(chunk.tool_call_arguments_chunk for chunk in read) for read in reads if read][
        -3:-1
    ]


def test_the_reasoning_before_a_parsed_call_is_kept() -> None:
    exchange = new_exchange(open_reasoning_tag="<think>")
    events = events_of(exchange, parsed(["I should add.", GOOD]))

    assert Reasoning("I should add.") in events
    assert [("add", '{"a": 1}', "")] == summary(events)[1]


def test_a_parsed_call_in_place_of_a_prefilled_one() -> None:
    exchange = new_exchange(tool_choice=REQUIRED, backend=get_backend("ollama"))
    events = events_of(exchange, parsed([GOOD]))

    assert ("", [("add", '{"a": 1}', "")], "tool_use") == summary(events)


def test_a_truncated_parsed_call_has_an_error() -> None:
    for make in (written, parsed):
        events = events_of(new_exchange(max_retries=0), make(["Ok. ", ("add", '{"a": ')], reason="length"))

        assert ("Ok. ", [("add", "", "truncated")], "max_tokens") == summary(events)


def test_a_retry_sees_the_parsed_call_as_text() -> None:
    exchange = new_exchange()
    for data in parsed([("subtract", "{}")]).pieces:
        exchange.feed(data)
    exchange.close()
    exchange.retry(get_backend("generic"))
    messages = json.loads(exchange.attempt.upstream_request.body)["messages"]

    assert call_text("subtract", "{}") == messages[-2]["content"]
    assert "subtract" in messages[-1]["content"]


def test_a_reply_without_calls_is_unchanged() -> None:
    exchange = new_exchange()

    assert [Text("Hi"), Stop("complete")] == [
        made for made in events_of(exchange, parsed(["Hi"])) if isinstance(made, Text | Stop)
    ]
