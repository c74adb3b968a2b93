"""The end of a value, whatever its content."""

import json
from typing import Any

import pytest

from fcshim.parse.limits import Limits
from fcshim.parse.stream import StreamParser, parse
from tests.parse.laws import Piece, check_reply

TOOLS = [
    {"name": "f", "parameters": {"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}}
]
OPEN = "<tool_call>\n<function=f>\n"
CLOSE = "</function>\n</tool_call>"
VALUE = "<parameter=s>\nx\n</parameter>\n"


def _only(text: str, **options: Any) -> Piece:
    """Read one call whole and character by character, which must give the same events."""
    options = {"dialect": "qwen3_xml", "tools": TOOLS, **options}
    whole = check_reply(text, "complete", parse(text, **options))
    parser = StreamParser(**options)
    events = [event for character in text for event in parser.feed(character)]

    assert whole == check_reply(text, "complete", events + parser.close())

    (call,) = (piece for piece in whole if "call" in piece)
    return call


@pytest.mark.parametrize(
    "value",
    [
        "</parameter> and more",
        "</function> and more",
        "a\n</tool_call>\nb",
        "use <parameter=n>5</parameter> here",
        "\n<parameter=n>\n5\n</parameter>\nor so",
        "\n<parameter=unknown>\n",
        "re.compile('<function=(.*?)>')",
        "<function=g>\nno call",
        f"{OPEN}{VALUE}{CLOSE}",
        f"{OPEN}<parameter=s>\n{OPEN}{VALUE}{CLOSE}\n</parameter>\n{CLOSE}",
        "\n\n",
        "</parameter>" + " " * 300,
    ],
)
def test_a_marker_after_which_the_value_continues_is_content(value: str) -> None:
    call = _only(f"{OPEN}<parameter=s>\n{value}\n</parameter>\n{CLOSE}")

    assert ({"s": value}, None) == (json.loads(call["arguments"]), call["error"])


@pytest.mark.parametrize(
    "end", ["\n</parameter>", "\n</parameter>\n", "\n</function>", "\n</tool_call>", "\n</parameter>\n</fun"]
)
def test_a_marker_at_the_end_of_the_reply_ends_the_value(end: str) -> None:
    assert '{"s": "x"}' == _only(f"{OPEN}<parameter=s>\nx{end}")["arguments"]


def test_a_parameter_of_the_tool_on_a_line_of_its_own_ends_the_value() -> None:
    assert '{"s": "x", "n": 5}' == _only(f"{OPEN}<parameter=s>\nx\n<parameter=n>\n5\n{CLOSE}")["arguments"]


def test_a_repeated_parameter_does_not_end_a_value() -> None:
    text = f"{OPEN}<parameter=n>\n5\n</parameter>\n<parameter=s>\nx\n<parameter=n>\n6\n</parameter>\n{CLOSE}"

    assert {"n": 5, "s": "x\n<parameter=n>\n6"} == json.loads(_only(text)["arguments"])


def test_a_marker_in_a_value_is_content_when_nothing_else_ends_it_for_long() -> None:
    value = "a\n</tool_call>\n" + "b" * 300
    call = _only(f"{OPEN}<parameter=s>\n{value}\n</parameter>\n{CLOSE}", limits=Limits(search=100))

    assert {"s": value} == json.loads(call["arguments"])


def test_a_value_that_quotes_a_call_needs_its_own_closing_tag() -> None:
    quoted = f"{OPEN}{VALUE}{CLOSE}"
    call = _only(f"{OPEN}<parameter=s>\nsee {quoted}\n</tool_call>")

    assert "truncated" == call["error"]["kind"]
