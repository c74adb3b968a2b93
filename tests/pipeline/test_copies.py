"""Replies that are neither a call nor an answer: asked for again, and never sent to the client as they are."""

import json
from pathlib import Path

import pytest

from fcshim.events import Text
from fcshim.messages import AssistantMessage, TextPart, ToolCall, ToolMessage
from fcshim.reply import fold
from tests.pipeline.driver import HELLO, call, drive, new_exchange, reply

VECTORS = json.loads((Path(__file__).parent / "copies.json").read_text(encoding="utf-8"))
EACH = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
WITH_RESULT = (
    HELLO,
    AssistantMessage((), (ToolCall("call_9", "add", '{"a": 1}'),)),
    ToolMessage("call_9", (TextPart("3"),), "add"),
)
MENDED = call("add", '{"a": 1}')


def exchange_for(vector, **options):
    return new_exchange(messages=WITH_RESULT if vector.get("result") else (HELLO,), **options)


def pieces_of(vector, size):
    said = vector["said"]
    return [said[at : at + size] for at in range(0, len(said), size)]


@EACH
@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("size", [1, 5, 999])
def test_a_call_of_the_retry_takes_the_place_of_a_copy(vector, buffered, size):
    result = drive(exchange_for(vector, buffered=buffered), reply(*pieces_of(vector, size)), reply(MENDED))
    answer = fold(result.events)

    assert [("add", '{"a": 1}', None)] == [
        (made.tool_call_name, made.tool_call_arguments_complete, made.error) for made in answer.tool_calls
    ]
    assert "<" not in answer.text
    assert "{" not in answer.text


@EACH
def test_an_answer_of_the_retry_takes_the_place_of_a_copy(vector):
    answer = fold(drive(exchange_for(vector), reply(*pieces_of(vector, 3)), reply("The sum is 3.")).events)
    before = "I will add.\n" if vector["name"].startswith("words") else ""

    assert f"{before}The sum is 3." == answer.text
    assert "complete" == answer.stop_reason


@EACH
@pytest.mark.parametrize("size", [1, 5, 999])
@pytest.mark.parametrize("max_retries", [0, 1, 2])
def test_without_a_better_reply_the_client_gets_the_answer_in_it_or_one_sentence(vector, size, max_retries):
    said = reply(*pieces_of(vector, size))
    result = drive(exchange_for(vector, max_retries=max_retries), *[said] * (max_retries + 1))
    answer = fold(result.events)

    assert vector["text"] == answer.text.rstrip()
    assert not answer.tool_calls
    assert "complete" == answer.stop_reason


def test_a_call_after_a_copied_result_is_accepted_without_the_copy():
    said = f"<function_result>3</function_result>\n{call()}"
    result = drive(new_exchange(messages=WITH_RESULT), reply(*said))
    answer = fold(result.events)

    assert ("", 1) == (answer.text, len(answer.tool_calls))


def test_text_before_a_copy_is_not_delayed():
    exchange = new_exchange()
    result = drive(exchange, reply("I will", " add.\n<func", "tion_result>3</function_result>"), reply("It is 3."))
    texts = [[event.text for event in read if isinstance(event, Text)] for read in result.reads]

    assert [["I will"], [" add.\n"]] == texts[:2]


def test_a_markup_prefix_that_becomes_another_tag_passes_at_once():
    result = drive(new_exchange(), reply("<function", "al> is a word", " of mine"))
    texts = [[event.text for event in read if isinstance(event, Text)] for read in result.reads]

    assert [[], ["<functional> is a word"], [" of mine"]] == texts[:3]


def test_the_retry_does_not_show_the_model_its_copy():
    result = drive(new_exchange(), reply("<function_result>3</function_result>"), reply("It is 3."))
    sent = json.dumps(result.sent[1]["messages"])

    assert "<function_result>3" not in sent
    assert "You wrote a function's result yourself." in sent
    assert "user" == result.sent[1]["messages"][-1]["role"]


def test_without_tools_nothing_is_withheld():
    said = "<function_result>3</function_result>"

    assert said == fold(drive(new_exchange(tools=()), reply(said)).events).text


def test_a_retry_after_a_real_result_asks_for_an_answer_and_shows_no_call():
    said = "<function_result>3</function_result>"
    exchange = new_exchange(messages=WITH_RESULT)
    sent = drive(exchange, reply(said), reply("It is 3.")).sent[1]["messages"][-1]["content"]

    assert "Answer in plain text now" in sent
    assert "<function name>" not in sent


def test_a_retry_without_a_result_shows_the_call_format():
    exchange = new_exchange()
    sent = drive(exchange, reply("<function_result>3</function_result>"), reply("3")).sent[1]["messages"][-1]["content"]

    assert "<function name>" in sent
