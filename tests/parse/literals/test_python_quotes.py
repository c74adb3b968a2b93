"""Which quote ends a string while text arrives."""

import pytest

from fcshim.events import ToolCallEnd
from fcshim.parse.arguments.scopes import ANYTHING
from fcshim.parse.body import BodyProgress
from fcshim.parse.limits import DEFAULT_LIMITS
from fcshim.parse.literals.brackets import OpenBrackets
from fcshim.parse.literals.call import LiteralCall
from fcshim.parse.literals.python_quotes import LOOK_AHEAD, StringContext
from fcshim.parse.markers import compile_end_markers
from fcshim.parse.readings.literals import CALL_LIST, Follows, LiteralSearch
from fcshim.parse.readings.steps import Frame
from fcshim.parse.sink import CallSink
from fcshim.parse.stream import StreamParser
from tests.steps import steps

MARKER = compile_end_markers(("<|end|>",))


def ends_string(following: str, *, may_be_key: bool = False, final: bool = False) -> bool | None:
    """Say whether a quote before `following` ends the value of the argument `a` in a list of calls."""
    frame = Frame(")", ANYTHING, Frame("]", CALL_LIST, None, keyed=False), keyed=True)
    frame.is_call = frame.has_keyword = True
    frame.keys = frozenset({"a"})

    def what_follows(text: str) -> Follows:
        return LiteralSearch(text, lambda _: ANYTHING).what_follows(frame, 0)

    sink = CallSink(None, "stream", str, 100)
    outer = OpenBrackets([], LiteralCall(BodyProgress(sink), sink, DEFAULT_LIMITS))
    context = StringContext("", None, {"a"}, what_follows, outer, may_be_key=may_be_key)
    return context.ends_string(following, 0, MARKER, final=final)


@pytest.mark.parametrize(
    "following", [", b=1", ", b: 1", ",\n  b=[", ", # so\nb=1", ", **{", "), g(", ")]<|end|>", ")]\n<|end|>"]
)
def test_a_quote_ends_the_string_where_the_next_argument_or_the_end_follows(following: str) -> None:
    assert ends_string(following + " ") is True


@pytest.mark.parametrize(
    "following",
    [
        "s fine", " bowl", ", he said", ". Then", "! ", "?)", "}", "; x", "$", ")'", ":", " ifx ", ", a=2", ", 'c'",
        ", 5]", " + 'b'", "*3", ".upper()", "[0]", " 'b'", " r'b'", "<|end|>", ") x", ")]'",
    ],
)  # fmt: skip
def test_any_other_quote_waits_for_the_end_of_the_body(following: str) -> None:
    assert ends_string(following + " " * LOOK_AHEAD) is False


@pytest.mark.parametrize("following", ["", " ", ",", ", b", ", b=", ")", ")]", ")]<|en"])
def test_more_text_is_needed_where_the_answer_may_change(following: str) -> None:
    assert ends_string(following) is None


def test_a_colon_may_follow_a_key() -> None:
    assert ends_string(": 1", may_be_key=True) is True


@pytest.mark.parametrize("text", [", b=1", "), g(b=1)]", ")]<|end|> and so on", " x", ", c d", ")] 'x"])
def test_a_longer_text_does_not_change_the_answer(text: str) -> None:
    found = [ends_string(text[:size]) for size in range(len(text) + 1)]
    answers = {answer for answer in found if answer is not None}

    assert len(answers) <= 1
    assert found == sorted(found, key=lambda answer: answer is not None)


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
