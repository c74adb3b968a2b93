"""Which quote ends a string while text arrives."""

import pytest

from fcshim.events import ToolCallChunk, ToolCallEnd
from fcshim.parse.literals.context import LOOK_AHEAD
from fcshim.parse.stream import StreamParser
from tests.steps import steps


def is_ended(following: str) -> bool:
    """Return whether the quote before `following`, in the value of the argument `a` in a list of calls, was sent."""
    parser = StreamParser("lfm2", new_id=lambda: "id")
    parser.feed("<|tool_call_start|>[f(a='x")
    events = parser.feed("'" + following.replace("<|end|>", "<|tool_call_end|>"))
    return any('"' in event.tool_call_arguments_chunk for event in events if isinstance(event, ToolCallChunk))


@pytest.mark.parametrize(
    "following", [", b=1", ", b: 1", ",\n  b=[", ", # so\nb=1", ", **{", "), g(", ")]<|end|>", ")]\n<|end|>"]
)
def test_a_quote_ends_the_string_where_the_next_argument_or_the_end_follows(following: str) -> None:
    assert is_ended(following + " ")


@pytest.mark.parametrize(
    "following",
    [
        "s fine", " bowl", ", he said", ". Then", "! ", "?)", "}", "; x", "$", ")'", ":", " ifx ", ", a=2", ", 'c'",
        ", 5]", " + 'b'", "*3", ".upper()", "[0]", " 'b'", " r'b'", ") x", ")]'",
    ],
)  # fmt: skip
def test_any_other_quote_waits_for_the_end_of_the_body(following: str) -> None:
    assert not is_ended(following + " " * LOOK_AHEAD)


@pytest.mark.parametrize("following", ["", " ", ",", ", b", ", b=", ")", ")]", ")]<|tool_ca"])
def test_more_text_is_needed_where_the_answer_may_change(following: str) -> None:
    assert not is_ended(following)


def test_a_colon_follows_a_key() -> None:
    assert is_ended(", **{'k': 1, 'l': 2")


@pytest.mark.parametrize("text", [", b=1", "), g(b=1)]", ")]<|end|> and so on", " x", ", c d", ")] 'x"])
def test_a_longer_text_does_not_change_the_answer(text: str) -> None:
    found = [is_ended(text[:size]) for size in range(len(text) + 1)]

    assert found == sorted(found)


ROWS = "<|tool_call_start|>[f(a=[{}])]<|tool_call_end|>"
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "array"}}}}}]


def _work(row: str) -> float:
    text = ROWS.format(", ".join([row] * 100))

    def feed() -> None:
        parser = StreamParser("lfm2", TOOLS)
        for at in range(0, len(text), 4):
            parser.feed(text[at : at + 4])

    feed()  # compiles what is compiled once
    return steps(feed) / len(text)


def test_a_string_before_closing_brackets_costs_about_what_numbers_cost() -> None:
    assert _work("{'k': ['x', 'y'], 'm': {'n': 'z'}}") < 2 * _work("{'k': [111, 222], 'm': {'n': 333}}")


def test_an_object_whose_key_the_schema_does_not_list_is_judged_with_its_key() -> None:
    """Before the key is known, the quote after `k` seems to end its string."""
    items = {"type": "object", "properties": {"k": {}, "m": {}}}
    parameters = {"properties": {"r": {"type": "array", "items": items}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    text = """<|tool_call_start|>[f(r=[[{'m': '], k'}], {'z': [['], k'], {'k': 'it's'}]}])]<|tool_call_end|>"""
    read = set()
    for size in (1, 2, 1000):
        parser = StreamParser("lfm2", tools, new_id=lambda: "id")
        events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
        read.add(repr([event for event in events + parser.close() if isinstance(event, ToolCallEnd)]))

    assert len(read) == 1
