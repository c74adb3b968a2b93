"""The last turns of a conversation, as a user who resumes it sees them."""

import pytest

from fcshim.chat.recap import recap
from fcshim.messages import (
    AssistantMessage,
    MediaPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)


def user(text, *parts):
    return UserMessage((TextPart(text), *parts))


def model(text="", *calls):
    return AssistantMessage((TextPart(text),) if text else (), tuple(ToolCall("1", name, "{}") for name in calls))


def result(text):
    return ToolMessage("1", (TextPart(text),), "f")


@pytest.mark.parametrize(
    ("messages", "rows"),
    [
        ((), []),
        ((SystemMessage((TextPart("Be brief."),)),), []),
        ((SystemMessage((TextPart("x"),)), user("Hi"), model("Ho")), ["the last turn:", "› Hi", "  Ho"]),
        (
            (user("Add"), model("See.", "add", "add", "sub"), result("3"), model("3")),
            ["the last turn:", "› Add", "  See.", "  ● add, sub", "  3"],
        ),
        ((user("See", MediaPart("image/png", data="x")), model()), ["the last turn:", "› See", "  [image/png]"]),
        ((user("Hi"), model("<tool_call>{}</tool_call>")), ["the last turn:", "› Hi"]),
        ((user("a"), user("b"), model("c")), ["the last turn:", "› a", "› b", "  c"]),
        ((user("x" * 300),), ["the last turn:", "› " + "x" * 160 + "…"]),
        ((user("Q"), model("1\n\n2\n3\n4\n5")), ["the last turn:", "› Q", *(f"  {n}" for n in range(1, 6))]),
        (
            (user("Q"), model("1\n2\n3\n4\n5\n6")),
            ["the last turn:", "› Q", "  1", "  2", "  3", "  4", "  … 2 more lines"],
        ),
    ],
)
def test_a_turn_is_its_question_its_calls_and_its_answer_shortened(messages, rows):
    assert rows == recap(messages)


def test_only_the_last_turns_are_shown():
    messages = [each for n in range(5) for each in (user(f"q{n}"), model(f"a{n}"))]

    assert ["the last 3 turns of 5:", "› q2", "  a2", "› q3", "  a3", "› q4", "  a4"] == recap(messages)
