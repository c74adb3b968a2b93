"""Calls of a `response_template` that are read at their end: limits, ends of the reply, cost."""

import functools
from typing import Any

import pytest

from fcshim.parse.dialect import Dialect
from fcshim.parse.stream import StreamParser
from tests.parse.cases import Case, check
from tests.parse.laws import Piece
from tests.parse.response_template.test_results import TOOLS, dialect_of
from tests.steps import steps

OPEN, CLOSE = "<run send>", "</run>"


@functools.cache
def dialect(name: str) -> Dialect:
    """Return the dialect of a template."""
    return dialect_of({"template": name})


def text(text: str) -> Piece:
    return {"text": text}


COMPLETE, CALLED = {"stop": "complete"}, {"stop": "tool_use"}
TRUNCATED: Piece = {"call": "send", "arguments": "", "error": "truncated"}
MALFORMED: Piece = {"call": "send", "arguments": "", "error": "malformed"}
HI = '<p key="text">Hi</p>'


@pytest.mark.parametrize(
    ("reply", "events"),
    [
        (OPEN + HI, [{"call": "send", "value": {"text": "Hi"}}, CALLED]),
        (OPEN + HI + "</r", [{"call": "send", "value": {"text": "Hi"}}, CALLED]),
        (OPEN + '<p key="text">Hi', [MALFORMED, COMPLETE]),
        (OPEN + '<p key="text">Hi</p><p key="ok">', [MALFORMED, COMPLETE]),
        (OPEN + "Hi" + CLOSE, [MALFORMED, COMPLETE]),
        (OPEN + '<p key="text">a</p> b</p>' + CLOSE, [MALFORMED, COMPLETE]),
        ("<run rm>" + HI + CLOSE, [text("<run rm>" + HI + CLOSE), COMPLETE]),
        (OPEN, [TRUNCATED, COMPLETE]),
        (OPEN + CLOSE, [{"call": "send", "value": {}}, CALLED]),
        ("<run send", [text("<run send"), COMPLETE]),
        ("<run of luck>", [text("<run of luck>"), COMPLETE]),
        ("`" + OPEN + HI + CLOSE + "` runs.", [text("`" + OPEN + HI + CLOSE + "` runs."), COMPLETE]),
        (OPEN + '<p key="ok">perhaps</p>' + CLOSE, [{"call": "send", "value": {"ok": "perhaps"}}, CALLED]),
        (OPEN + '<p key="text">' + OPEN + "</p>" + CLOSE, [{"call": "send", "value": {"text": OPEN}}, CALLED]),
    ],
)
def test_the_end_of_a_body_decides(reply: str, events: list[Piece]) -> None:
    check(Case(reply, reply, events, tools=TOOLS, options={"dialect": dialect("xml_types")}, last=True))


def test_a_reply_that_is_cut_off_has_a_truncated_call() -> None:
    reply = OPEN + HI

    check(
        Case(
            reply,
            reply,
            [TRUNCATED, {"stop": "max_tokens"}],
            tools=TOOLS,
            options={"dialect": dialect("xml_types")},
            stop_reason="max_tokens",
        )
    )


@pytest.mark.parametrize("name", ["xml_types", "kv_lines", "text_arguments"])
def test_what_is_collected_is_limited(name: str) -> None:
    opening = OPEN if name == "xml_types" else "<do send>"
    parser = StreamParser(dialect(name), TOOLS)
    events = parser.feed(opening + "x" * 17_000)
    [end] = [event for event in events if type(event).__name__ == "ToolCallEnd"]

    assert "limit" == end.error.kind  # type: ignore[union-attr] # the call has an error


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("xml_types", '<p key="a">'),
        ("xml_types", OPEN),
        ("xml_types", "<run "),
        ("xml_types", OPEN + HI + CLOSE),
        ("json_delims", "<call><s>"),
        ("json_delims", "<call>{a:"),
        ("kv_lines", "<do send>a:"),
        ("text_arguments", "<do send>[["),
        ("named_json_lookahead", ">>>f\n"),
        ("named_json_lazy", "<fn>"),
        ("named_json_kimi", "<|tool_call_begin|>functions."),
    ],
)
def test_the_cost_of_hostile_replies_is_linear(name: str, unit: str) -> None:
    short, long = (steps(functools.partial(read, name, unit * (size // len(unit)))) for size in (750, 3_000))

    assert long < 4.6 * short


def read(name: str, reply: str) -> list[Any]:
    """Read a reply in pieces of four characters."""
    parser = StreamParser(dialect(name), TOOLS)
    for at in range(0, len(reply), 4):
        parser.feed(reply[at : at + 4])
    return parser.close()


@pytest.mark.parametrize("name", ["json_delims", "text_arguments"])
def test_a_deep_value_is_an_error_not_an_exception(name: str) -> None:
    deep = "[" * 3000 + "]" * 3000
    start = '<call>{"name": "send", "args": ' if name == "json_delims" else "<do send>"
    parser = StreamParser(dialect(name), TOOLS)
    events = parser.feed(f'{start}{{"text": {deep}}}') + parser.close()

    assert not [event for event in events if getattr(event, "error", 0) is None]
