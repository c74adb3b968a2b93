"""Steps as text turns: reasoning, reminders, results of every kind."""

from typing import Any

import pytest

from fcshim.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, text_of
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL, Dialect
from fcshim.parse.stream import parse
from fcshim.prompt.content import Escaper
from fcshim.prompt.escape import BUNDLED
from fcshim.prompt.history import MALFORMED, NO_CALL, NO_RESULT, TextTurn, TurnWriter, split_steps
from fcshim.prompt.profiles import Profile
from fcshim.prompt.render import render_reminder, render_result
from tests.prompt.conversations import text

ASK = UserMessage(text("please"))


def thought(words: str) -> AssistantMessage:
    return AssistantMessage(text("so"), reasoning=words)


def write(*messages: Message, dialect: Dialect = FUNCTION_CALL, **options: Any) -> list[TextTurn]:
    profile = Profile(name="", summary="", **options)
    return TurnWriter(Escaper(BUNDLED), dialect, profile, has_tools=True).write(split_steps(messages))


@pytest.mark.parametrize(
    ("reasoning", "seen"), [("all", ["one", "two", "three"]), ("current", ["", "two", "three"]), ("none", ["", "", ""])]
)
def test_the_profile_decides_which_reasoning_is_shown(reasoning: str, seen: list[str]) -> None:
    call = AssistantMessage(text("so"), (ToolCall("1", "f", "{}"),), "two")
    result = ToolMessage("1", text("x"))
    written = write(ASK, thought("one"), ASK, call, result, thought("three"), reasoning=reasoning)

    assert seen == [turn.reasoning for turn in written if isinstance(turn, AssistantMessage)]


def test_reasoning_may_be_written_as_text_before_the_text() -> None:
    written = write(ASK, thought(" <think>hm</think>\n"), reasoning_tag="<think>")

    assert AssistantMessage(text("<think>\n<_think>hm<_/think>\n</think>\n\nso")) == written[1]


def test_without_reasoning_there_is_no_tag() -> None:
    assert AssistantMessage(text("so")) == write(ASK, thought(""), reasoning_tag="<think>")[1]


def test_the_call_format_is_repeated_after_enough_characters() -> None:
    long = UserMessage(text("x" * 60))
    turns = write(long, AssistantMessage(text("y")), long, AssistantMessage(text("z")), long, reminder=100)

    assert [False, True, False] == [render_reminder(FUNCTION_CALL) in text_of(turns[at].content) for at in (0, 2, 4)]
    assert text_of(turns[2].content).endswith("x\n\n" + render_reminder(FUNCTION_CALL))


def test_without_tools_there_is_no_reminder() -> None:
    turns = TurnWriter(Escaper(BUNDLED), FUNCTION_CALL, Profile(name="", summary="", reminder=1)).write(
        split_steps([ASK])
    )

    assert [ASK] == turns


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_reminder_is_not_parsed_as_a_call(dialect: Dialect) -> None:
    events = parse(render_reminder(dialect), dialect=dialect, tools=[{"name": "f"}])

    assert "ToolCallStart" not in {type(event).__name__ for event in events}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_malformed_history_is_written_correctly_in_every_dialect(dialect: Dialect) -> None:
    calls = AssistantMessage((), (ToolCall("1", "f", '{"a": "b'), ToolCall("2", "g", "{}")))
    written = write(ASK, calls, ToolMessage("9", text("nine")), ToolMessage("2", text("two")), ASK, dialect=dialect)
    parameters = {"type": "object", "properties": {MALFORMED: {"type": "string"}}}
    tools = [{"name": "f", "parameters": parameters}, {"name": "g"}]
    called = parse(text_of(written[1].content), dialect=dialect, tools=tools)
    ends = [event for event in called if type(event).__name__ == "ToolCallEnd"]
    answers = [
        render_result(dialect, "f", NO_RESULT, is_error=True),
        render_result(dialect, "g", "two"),
        NO_CALL,
        render_result(dialect, "unknown", "nine"),
    ]

    assert [("f", True), ("g", False)] == [
        (end.tool_call_name, MALFORMED in end.tool_call_arguments_complete) for end in ends
    ]
    assert ["\n".join(answers), "please"] == [text_of(turn.content) for turn in written[2:]]


def test_calls_at_the_end_wait_for_their_results() -> None:
    assert 2 == len(write(ASK, AssistantMessage((), (ToolCall("1", "f", "{}"),))))


def test_tool_descriptions_come_between_results_and_user_text() -> None:
    calls = AssistantMessage((), (ToolCall("1", "f", "{}"),))
    turns = TurnWriter(Escaper(BUNDLED), FUNCTION_CALL, Profile(name="", summary=""), later_descriptions={1: "TOOLS"})
    written = turns.write(split_steps([ASK, calls, ToolMessage("1", text("x")), ASK]))

    assert [
        render_result(FUNCTION_CALL, "f", "x"),
        "<system_note>\nTOOLS\n</system_note>",
        "please",
    ] == [text_of(turn.content) for turn in written[2:]]
