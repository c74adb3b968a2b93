"""The fast path of plain text: it reads text as the states do, and what begins like a list costs little."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.parse.dialect import CallMarkers, Dialect
from fcshim.parse.json.body import JsonShape
from fcshim.parse.machine.text import TextStates
from fcshim.parse.stream import StreamParser
from tests.parse.laws import normalise
from tests.steps import steps

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"properties": {"city": {"type": "string"}}}}}
    for name in ("get_weather", "f", "to")
]
_PIECES = (
    *("\n", "\n", "\n\n", " ", "  ", "\t", "- ", "-", "* ", "*", "**", "+ ", "1. ", "12) ", "2024", "3", ".", ")", "("),
    *("get milk", "get_weather", 'get_weather(city="x")', "f", "f()", "f ()", "functions.f()", "print(f())", "to", "a"),
    *("`", "``", "```", "`f()`", "<", "<div>", '<div class="x">', "<b", "</b>", "<f>", "<f/>", "<tool>", "</tool>"),
    *(
        "&",
        "&lt;",
        "\\",
        "[",
        "[f()]",
        "]",
        "{",
        '{"name": "f", "arguments": {}}',
        "｛",
        "[1] ",
        "[ ] ",
        "[x] ",
        "[f",
        "[map](f)",
        "&amp;",
        "&l",
        "\\(",
        "</p>",
        "**tool call:**",
        "**<tool>**",
    ),
    *(
        "> ",
        "~",
        "U",
        "User",
        "H",
        "to=",
        "call",
        "é",
        "東",
        "\ufeff",
        "<tool_call>",
        "</tool_call>",
        "functools",
        "x[",
    ),
)
texts = st.lists(st.sampled_from(_PIECES), max_size=14).map("".join)
_WIDTH = 4


def _read(text, dialect, size):
    parser = StreamParser(dialect, TOOLS, rescue=True)
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    return normalise(events + parser.close())


@given(text=texts, dialect=st.sampled_from(["hermes", "pythonic", "auto"]), size=st.sampled_from([1, 3, 4, 7, 200]))
def test_the_fast_path_reads_text_as_the_states_do(text, dialect, size):
    with patch.object(TextStates, "find_plain_end", lambda *_: -1):
        expected = _read(text, dialect, size)

    assert expected == _read(text, dialect, size)


@pytest.mark.parametrize(
    "line",
    [
        "- bring bread and milk\n",
        "1. Bring bread and milk\n",
        "- **Bread**: bring some\n",
        "* see the table of this\n",
        "| a | b | 12 | -3 | x |\n",
        "In 2024 there were 12 of 3.\n",
    ],
)
def test_a_line_that_may_begin_a_call_costs_little_more_than_a_plain_one(line):
    parser, plain = (StreamParser("hermes", TOOLS, rescue=True) for _ in range(2))
    prose = ("Then bring bread and milk.\n" * len(line))[: 20 * len(line)]
    feed = lambda parser, text: [parser.feed(text[at : at + _WIDTH]) for at in range(0, len(text), _WIDTH)]  # noqa: E731
    feed(parser, line)
    feed(plain, prose)

    assert steps(lambda: feed(parser, line * 20)) <= 1.3 * steps(lambda: feed(plain, prose))


@pytest.mark.parametrize("marker", ["--call--", "1:call:", "*call*", "[1call]", "&call;", "</call", "\\call"])
@pytest.mark.parametrize("size", [1, 4, 200])
def test_a_marker_of_an_own_dialect_may_begin_like_a_list(marker, size):
    dialect = Dialect(
        "own",
        "",
        call=CallMarkers(marker, "--end--"),
        body=JsonShape(),
    )
    call = marker + '{"name": "f", "arguments": {}}--end--'

    assert {"stop": "tool_use"} == _read(call, dialect, size)[-1]
    assert {"stop": "tool_use"} == _read(f"So:\n{call}", dialect, size)[-1]
