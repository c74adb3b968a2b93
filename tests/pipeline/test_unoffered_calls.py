"""A call of a tool that is not offered: asked for again, and in the end one sentence instead of its markup."""

import pytest

from fcshim.events import Text
from fcshim.parse.dialects import DIALECTS
from fcshim.prompt.render import render_calls
from fcshim.reply import fold
from tests.pipeline.driver import call, drive, new_exchange, reply

SENTENCE = "The model called the tool 'no_such_tool', which is not offered."
UNKNOWN = call("no_such_tool", '{"a": 1}')
SIZES = pytest.mark.parametrize("size", [1, 7, 9999])


def pieces_of(text, size):
    return [text[at : at + size] for at in range(0, len(text), size)]


def answer_to(text, size=9999, *, max_retries=0, **options):
    said = reply(*pieces_of(text, size))
    return fold(drive(new_exchange(max_retries=max_retries, **options), *[said] * (max_retries + 1)).events)


NAMED_BY_TOOLS = {"glm4", "cline"}
"""Dialects in which only the name of an offered tool begins a call."""


@SIZES
@pytest.mark.parametrize("max_retries", [0, 1])
@pytest.mark.parametrize("dialect", sorted(DIALECTS.keys() - NAMED_BY_TOOLS))
def test_the_client_gets_one_sentence_in_every_dialect(dialect, size, max_retries):
    written = render_calls(DIALECTS[dialect], [("no_such_tool", '{"a": 1}')])
    answer = answer_to(written, size, max_retries=max_retries, dialect=dialect)

    leftover = "\n\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    leftover = leftover if dialect == "deepseek_v3" else ""  # the markers after its fence are text
    assert (SENTENCE + leftover, []) == (answer.text, list(answer.tool_calls))


@SIZES
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (UNKNOWN + "\nDone.", f"{SENTENCE}\n\nDone."),
        ("I look.\n" + UNKNOWN, f"I look.\n\n{SENTENCE}"),
        (UNKNOWN + UNKNOWN, SENTENCE),
        ('{"name": "no_such_tool", "arguments": {"a": 1}}', SENTENCE),
        ('{"name": "no_such_tool", "parameters": {}}', SENTENCE),
        ('{\n  "name": "no_such_tool",\n  "arguments": {"a": 1}\n}\n', SENTENCE),
        ('<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>', SENTENCE),
    ],
)
def test_only_the_call_gives_way(text, expected, size):
    assert expected == answer_to(text, size).text


@SIZES
@pytest.mark.parametrize(
    "text",
    [
        f"Write it like this: `{UNKNOWN}`.",
        f"For example:\n```\n{UNKNOWN}\n```\nThat is all.",
        f"Example:\n\n    {UNKNOWN.replace(chr(10), chr(10) + '    ')}\n\nThat is all.",
        '```json\n{"name": "no_such_tool", "arguments": {}}\n```',
        'An object:\n{"name": "no_such_tool", "arguments": {}}\nis a call.',
        '{"name": "Ann", "age": 7}',
        '{"name": "Ann Lee", "arguments": {"for": 1, "against": 0}}',
        '{"name": "motion", "arguments": ["for", "against"]}',
        '{"name": "motion", "arguments": {}, "votes": 3}',
    ],
)
def test_what_is_quoted_or_no_call_stays_text(text, size):
    assert text == answer_to(text, size).text


def test_a_good_call_of_the_retry_takes_its_place():
    answer = fold(drive(new_exchange(), reply(UNKNOWN), reply(call("add", '{"a": 1}'))).events)

    assert ("", ["add"]) == (answer.text, [made.tool_call_name for made in answer.tool_calls])


def test_a_good_call_beside_it_stands():
    answer = answer_to(call("add", '{"a": 1}') + UNKNOWN)

    assert ["add"] == [made.tool_call_name for made in answer.tool_calls]
    assert "<" not in answer.text


def test_the_text_before_the_call_streams():
    result = drive(new_exchange(), reply("I look. ", UNKNOWN), reply("No."))

    assert [Text("I look. ")] == result.reads[0]


@pytest.mark.parametrize("count", [2, 200])
def test_the_sentences_about_many_tools_are_limited(count):
    answer = answer_to("".join(call(f"tool_{number}", "{}") for number in range(count)))

    assert "tool_1'" in answer.text
    assert len(answer.text) < 1_200
