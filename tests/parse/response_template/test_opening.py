"""Openings of a `response_template`: what they open, ends of the reply, cost."""

import functools
from typing import Any

import pytest

from fcshim.parse.dialect import Dialect
from fcshim.parse.stream import StreamParser
from tests.parse.cases import Case, check
from tests.parse.laws import Piece
from tests.parse.response_template.test_results import TOOLS, dialect_of
from tests.steps import steps


@functools.cache
def dialect(name: str) -> Dialect:
    """Return the dialect of a template."""
    return dialect_of({"template": name})


def text(text: str) -> Piece:
    return {"text": text}


COMPLETE, CALLED = {"stop": "complete"}, {"stop": "tool_use"}
MALFORMED: Piece = {"call": "send", "arguments": "", "error": "malformed"}
OPEN, CLOSE = "<do send>", "</do>"
HI = '{"text": "Hi"}'
CALL: Piece = {"call": "send", "value": {"text": "Hi"}}


@pytest.mark.parametrize(
    ("reply", "events"),
    [
        (OPEN + HI, [CALL, CALLED]),
        (OPEN + HI + "</d", [CALL, CALLED]),
        (OPEN + HI + CLOSE, [CALL, CALLED]),
        ("<do rm>" + HI + CLOSE, [text("<do rm>" + HI + CLOSE), COMPLETE]),
        (OPEN + "Hi" + CLOSE, [MALFORMED, COMPLETE]),
        ("<do send", [text("<do send"), COMPLETE]),
        ("<do of luck>", [text("<do of luck>"), COMPLETE]),
        ("`" + OPEN + HI + CLOSE + "` runs.", [text("`" + OPEN + HI + CLOSE + "` runs."), COMPLETE]),
    ],
)
def test_the_opening_and_the_end_of_a_body_decide(reply: str, events: list[Piece]) -> None:
    check(Case(reply, reply, events, tools=TOOLS, options={"dialect": dialect("text_arguments")}, last=True))


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("text_arguments", OPEN),
        ("text_arguments", "<do "),
        ("text_arguments", OPEN + HI + CLOSE),
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


def test_a_deep_value_is_an_error_not_an_exception() -> None:
    deep = "[" * 3000 + "]" * 3000
    parser = StreamParser(dialect("text_arguments"), TOOLS)
    events = parser.feed(f'<do send>{{"text": {deep}}}') + parser.close()

    assert not [event for event in events if getattr(event, "error", 0) is None]
