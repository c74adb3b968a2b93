"""Steps of a conversation: their messages, the results of their calls, and past arguments."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.messages import AssistantMessage, MediaPart, SystemMessage, ToolCall, ToolMessage, UserMessage
from fcshim.parse.dialects import DIALECTS
from fcshim.prompt.history import (
    LATE_RESULT,
    MALFORMED,
    NO_CALL,
    NO_RESULT,
    HistoryStep,
    MatchedResult,
    PastArguments,
    ResultMatcher,
    split_steps,
)
from fcshim.prompt.render import render_calls
from tests.prompt.conversations import text


def kept(text: str) -> str:
    return json.dumps({MALFORMED: text}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("given_text", "written"),
    [
        ('{"a":  1}', '{"a":  1}'),
        ('{"a": "\\u00e9"}', '{"a": "\\u00e9"}'),
        ("", "{}"),
        (" \n", "{}"),
        ("null", "{}"),
        (json.dumps('{"a": 1}'), '{"a": 1}'),
        ("{'a': True,}", '{"a": true}'),
        ('{"a": {"b": 1', '{"a": {"b": 1}}'),
        ('{"a": "x\ny"}', '{"a": "x\\ny"}'),
        ('{"a": "\\ud800"}', '{"a": "\ufffd"}'),
        ('{"a": "\ud800"}', '{"a": "\ufffd"}'),
        ('{"city": "Par', kept('{"city": "Par')),
        ('{"a": NaN}', kept('{"a": NaN}')),
        ("[1]", kept("[1]")),
        ('"Paris"', kept('"Paris"')),
        ("{} and more", kept("{} and more")),
        ('{"a":' * 65 + "1" + "}" * 65, kept('{"a":' * 65 + "1" + "}" * 65)),
    ],
)
def test_any_arguments_become_an_object(given_text: str, written: str) -> None:
    assert written == PastArguments().write(given_text)


@pytest.mark.parametrize("text", ["[" * 5000, "9" * 5000, "{" * 5000], ids=["deep", "long", "open"])
def test_unreadable_arguments_are_shortened(text: str) -> None:
    written = json.loads(PastArguments().write(text))

    assert "[... 3,000 characters left out ...]" in written[MALFORMED]


def test_repair_is_limited_per_conversation() -> None:
    arguments = PastArguments()
    broken = "{'a': '" + "x" * 30_000 + "'}"

    assert ["a", "a", MALFORMED] == [next(iter(json.loads(arguments.write(broken)))) for _ in range(3)]
    assert '{"a": 1}' == arguments.write("{'a': 1}")


@given(st.text(alphabet="{}[]\"\\:, 'a1\n\ud800", max_size=30) | st.recursive(st.none(), st.lists).map(json.dumps))
def test_the_result_is_always_a_strict_object(text: str) -> None:
    value = json.loads(PastArguments().write(text).encode())

    assert isinstance(value, dict)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("text", ['{"city": "Par', "[1]", '{"a": "\\ud800"}', '{"a":' * 300 + "1" + "}" * 300])
def test_every_dialect_can_write_the_result(dialect: object, text: str) -> None:
    assert render_calls(dialect, [("f", PastArguments().write(text))]).encode()


F, G = ToolCall("1", "f", "{}"), ToolCall("2", "g", "{}")
ONE, TWO = ToolMessage("1", text("one")), ToolMessage("2", text("two"))


def test_results_are_in_the_order_of_the_calls() -> None:
    assert [MatchedResult("f", text("one")), MatchedResult("g", text("two"))] == ResultMatcher().match(
        [F, G], [TWO, ONE]
    )


def test_a_call_without_a_result_gets_a_note() -> None:
    assert [
        MatchedResult("f", text(NO_RESULT), is_error=True),
        MatchedResult("g", text("two")),
    ] == ResultMatcher().match([F, G], [TWO])


def test_a_result_without_a_call_gets_a_note() -> None:
    named = ToolMessage("9", text("x"), name="h", is_error=True)

    assert [
        MatchedResult("unknown", text("one"), note=NO_CALL),
        MatchedResult("h", text("x"), is_error=True, note=NO_CALL),
    ] == (ResultMatcher().match([], [ONE, named]))


def test_a_late_result_gets_a_note() -> None:
    answers = ResultMatcher()
    answers.match([F], [])

    assert [MatchedResult("g", text("two")), MatchedResult("f", text("one"), note=LATE_RESULT)] == answers.match(
        [G], [ONE, TWO]
    )


def test_a_reused_id_means_the_last_call() -> None:
    answers = ResultMatcher()

    assert [MatchedResult("f", text("one"))] == answers.match([F], [ONE])
    assert [MatchedResult("h", text("two"))] == answers.match(
        [ToolCall("1", "h", "{}")], [ToolMessage("1", text("two"))]
    )
    assert [MatchedResult("h", text("one"), note=LATE_RESULT)] == answers.match([], [ONE])


def test_results_of_calls_with_the_same_id_are_assigned_in_order() -> None:
    twice = [F, ToolCall("1", "g", "{}")]
    second = ToolMessage("1", text("two"))

    assert [MatchedResult("f", text("one")), MatchedResult("g", text("two"))] == ResultMatcher().match(
        twice, [ONE, second]
    )


def test_a_duplicate_result_counts_once_and_a_different_one_is_added() -> None:
    other = ToolMessage("1", text("other"))

    assert [MatchedResult("f", text("one")), MatchedResult("f", text("other"))] == ResultMatcher().match(
        [F], [ONE, other, ONE]
    )


def test_two_images_are_two_results() -> None:
    images = [ToolMessage("1", (MediaPart("image/png", data=data),)) for data in ("aGk=", "aG8=")]

    assert [MatchedResult("f", image.content) for image in images] == ResultMatcher().match([F], images)


def test_the_clients_name_of_a_result_is_used() -> None:
    assert [MatchedResult("renamed", text("x"))] == ResultMatcher().match(
        [F], [ToolMessage("1", text("x"), name="renamed")]
    )


USER = UserMessage(text("hi"))
CALL = AssistantMessage((), (ToolCall("1", "f", "{}"),))
RESULT = ToolMessage("1", text("x"))
NOTE = SystemMessage(text("late"))


def test_a_step_is_assistant_messages_then_other_messages() -> None:
    steps = split_steps([USER, CALL, CALL, RESULT, NOTE, USER, AssistantMessage()])

    assert [
        HistoryStep((), (USER,)),
        HistoryStep((CALL, CALL), (RESULT, NOTE, USER)),
        HistoryStep((AssistantMessage(),), ()),
    ] == steps


def test_an_empty_conversation_has_no_steps() -> None:
    assert [] == split_steps([])


def test_a_step_has_its_calls_results_and_whether_there_is_a_user_message() -> None:
    step = HistoryStep((CALL, CALL), (RESULT, USER))

    assert (["f", "f"], [RESULT], True) == ([call.name for call in step.calls], step.results, step.has_user_message)
    assert not HistoryStep((CALL,), (RESULT, NOTE)).has_user_message
