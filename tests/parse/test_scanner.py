"""A scanner's answer about a text holds for every text that begins with it, or is that more text is needed."""

import re

import pytest

from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.parse.body_selection import select_body, select_element, select_line, select_name_as_key
from fcshim.parse.scanner import MoreNeeded, Scanner, decided, none_if_more_needed
from fcshim.parse.sink import CallSink

WORD = re.compile(r"[a-z]{1,8}+")
PARAMETERS: dict[str, JSON] = {"type": "object", "properties": {"city": {"type": "string"}}}
TEXTS = [
    'get_weather\n{"city": "Bern"}.',
    "print([get_weather(city='Bern')])",
    '```json\n[[get_weather(city="Bern")]]',
    'get_weather[ARGS]{"city": 1}',
    "get_weather {city : 1}",
    "<name>get_weather</name> <arguments><city>Bern</city>",
    '<function>get_weather</function><args> {"city": 1}',
    '<get_weather city="Bern"/>',
    "<get_weather> <city>Bern</city>",
    '<get_weather />{"city": 1}',
    '[get_weather \t city="Bern"]',
    '{"get_weather": {"city": 1}}',
    '{ "get_weather" :{}}',
    "get_weather says: rain",
    "get_time()",
    "<get_time>12</get_time>",
]


def test_a_token_at_the_end_of_the_text_is_not_decided() -> None:
    scan = Scanner("ab cd", 0)

    assert ("ab", "", " ") == (scan.take(WORD), scan.take(WORD), scan.peek())
    with pytest.raises(MoreNeeded):
        Scanner("ab cd", 3).take(WORD)
    with pytest.raises(MoreNeeded):
        Scanner("ab cd", 5).peek()


def test_the_beginning_of_a_literal_is_not_decided() -> None:
    scan = Scanner("</ab>", 0)

    assert ("</", "", 2) == (scan.skip("</", "<"), scan.skip("</", "<"), scan.pos)
    with pytest.raises(MoreNeeded):
        Scanner("<", 0).skip("</")


def test_no_answer_is_that_more_text_is_needed() -> None:
    assert decided(0) == 0
    with pytest.raises(MoreNeeded):
        decided(None)


def test_a_function_that_needs_more_text_returns_none() -> None:
    @none_if_more_needed
    def begins(text: str) -> bool:
        return Scanner(text, 0).skip("<a>") == "<a>"

    assert [None, None, True, False] == list(map(begins, ("", "<a", "<a>", "<b")))


@pytest.mark.parametrize("text", TEXTS)
def test_more_text_changes_no_answer(text: str) -> None:
    sink = CallSink({"get_weather": Tool("get_weather", parameters=PARAMETERS)}, "stream", str, 100)
    for select in (
        select_body,
        select_element,
        select_name_as_key,
        lambda sink, text, pos: select_line(sink, text, pos, quoted=False),
    ):
        answers: list[object] = []
        for end in range(1, len(text) + 1):
            try:
                answers.append(select(sink, text[:end], 0))
            except MoreNeeded:
                assert not answers

        assert answers
        assert [answers[0]] * len(answers) == answers
