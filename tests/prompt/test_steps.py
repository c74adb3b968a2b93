"""Splitting of conversations into steps."""

from fcshim.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from fcshim.prompt.history import Step, split_steps
from tests.prompt.conversations import text

USER = UserMessage(text("hi"))
CALL = AssistantMessage((), (ToolCall("1", "f", "{}"),))
RESULT = ToolMessage("1", text("x"))
NOTE = SystemMessage(text("late"))


def test_a_step_is_assistant_messages_then_other_messages() -> None:
    steps = split_steps([USER, CALL, CALL, RESULT, NOTE, USER, AssistantMessage()])

    assert [Step((), (USER,)), Step((CALL, CALL), (RESULT, NOTE, USER)), Step((AssistantMessage(),), ())] == steps


def test_an_empty_conversation_has_no_steps() -> None:
    assert [] == split_steps([])


def test_a_step_has_its_calls_results_and_whether_there_is_a_user_message() -> None:
    step = Step((CALL, CALL), (RESULT, USER))

    assert (["f", "f"], [RESULT], True) == ([call.name for call in step.calls], step.results, step.has_user_message)
    assert not Step((CALL,), (RESULT, NOTE)).has_user_message
