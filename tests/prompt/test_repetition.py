"""Calls that repeat without progress are left out of the prompt, and refused the fourth time; ordinary runs stay."""

import pytest

from fcshim.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    text_of,
)
from fcshim.prompt.repetition import ASK, Repetition, call_key, find_repetition

SYSTEM = SystemMessage((TextPart("Rules."),))


def said(text: str) -> UserMessage:
    return UserMessage((TextPart(text),))


class Talk:
    """Builds a conversation; each step is one or more calls, with their results."""

    def __init__(self) -> None:
        self.messages: list[Message] = [SYSTEM, said("Do it.")]
        self._count = 0

    def step(self, *calls: tuple[str, str], extra: str = "") -> "Talk":
        made = []
        for name, _ in calls:
            self._count += 1
            tool, _, arguments = name.partition(" ")
            made.append(ToolCall(f"c{self._count}", tool, arguments or "{}"))
        self.messages.append(AssistantMessage((TextPart("Let me see."),), tuple(made)))
        self.messages += [
            ToolMessage(call.id, (TextPart(result),)) for call, (_, result) in zip(made, calls, strict=True)
        ]
        if extra:
            self.messages.append(said(extra))
        return self

    def user(self, text: str) -> "Talk":
        self.messages += [AssistantMessage((TextPart("Done."),)), said(text)]
        return self

    def find(self, *repeatable: str) -> Repetition:
        return find_repetition(self.messages, repeatable)


A, B, C = ("read a", "text"), ("list b", "names"), ("grep c", "lines")


def repeated(count: int, *steps: tuple[str, str]) -> Talk:
    talk = Talk()
    for _ in range(count):
        for step in steps:
            talk.step(step)
    return talk


def lines(found: Repetition) -> list[str]:
    texts = [text_of(message.content) for message in found.messages if isinstance(message, UserMessage)]
    return [text for text in texts if text.startswith("[")]


def calls(found: Repetition) -> list[str]:
    return [
        call.name for message in found.messages if isinstance(message, AssistantMessage) for call in message.tool_calls
    ]


def test_a_second_call_may_have_been_meant():
    talk = repeated(2, A)

    assert Repetition(tuple(talk.messages)) == talk.find()


def test_the_third_time_the_repeats_are_left_out_and_a_line_says_so():
    found = repeated(3, A).find()

    assert ["read"] == calls(found)
    assert ["[The same calls were made again twice, with the same results. They are left out here.]"] == lines(found)
    assert {} == found.refused
    assert ("the same call came 3 times with the same result: the repeats are left out",) == found.notes


@pytest.mark.parametrize("count", [4, 5, 52, 220])
def test_from_the_fourth_time_on_the_call_is_refused_and_an_answer_asked_for(count):
    found = repeated(count, A).find()

    assert ["read"] == calls(found)
    assert lines(found)[0].endswith(f"again {count - 1} times, with the same results. They are left out here.] {ASK}")
    assert {call_key("read", "a"): count} == found.refused


@pytest.mark.parametrize("steps", [(A, B), (A, B, C)], ids=["two", "three"])
def test_calls_that_take_turns_are_a_loop_too(steps):
    found = repeated(4, *steps).find()

    assert [step[0].split()[0] for step in steps] == calls(found)
    assert {call_key(*step[0].split()) for step in steps} == set(found.refused)


def test_parallel_calls_repeat_together():
    talk = Talk()
    for _ in range(4):
        talk.step(A, B)

    assert ["read", "list"] == calls(talk.find())
    assert 2 == len(talk.find().refused)


def test_arguments_are_compared_by_value():
    talk = Talk()
    for arguments in ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', '{"b":2,"a":1}', '{ "a":1,"b":2 }'):
        talk.step((f"read {arguments}", "text"))

    assert 1 == len(talk.find().refused)


ORDINARY = {
    "other results": [("poll x", f"{percent} %") for percent in range(9)],
    "other arguments": [(f"read {name}", "not found") for name in "abcdefgh"],
    "a test after each edit": [
        step for edit in range(6) for step in ((f"edit {edit}", "done"), ("bash test", "1 failed"))
    ],
    "two reads of each file": [step for name in "abcd" for step in [(f"read {name}", name)] * 2],
    "a look back": [A, B, C, A, ("edit 1", "done"), A, ("edit 2", "done"), A, ("edit 3", "done"), A],
}


@pytest.mark.parametrize("steps", ORDINARY.values(), ids=ORDINARY)
def test_ordinary_runs_are_not_changed(steps):
    talk = repeated(1, *steps)

    assert Repetition(tuple(talk.messages)) == talk.find()


def test_a_user_who_asks_again_gets_the_call_again():
    talk = Talk()
    for _ in range(6):
        talk.step(A).user("And now?")

    assert Repetition(tuple(talk.messages)) == talk.find()


def test_a_reminder_that_an_agent_adds_to_results_ends_no_loop():
    talk = Talk()
    for number in range(4):
        talk.step(A, extra=f"Reminder {number}")
    found = talk.find()

    assert ["read"] == calls(found)
    assert 1 == len(found.refused)
    assert ["Reminder 1", "Reminder 2", "Reminder 3"] == [text_of(message.content) for message in found.messages[5:-1]]


def test_after_progress_nothing_is_refused_and_the_prompt_begins_as_before():
    talk = repeated(5, A)
    looping = talk.find().messages
    after = talk.step(B).find()

    assert looping[:-1] == after.messages[: len(looping) - 1]
    assert ["read", "list"] == calls(after)
    assert {} == after.refused
    assert not any(ASK in line for line in lines(after))


@pytest.mark.parametrize("pattern", ["read", "re*", "*"])
def test_tools_that_poll_are_excepted(pattern):
    talk = repeated(9, A)

    assert Repetition(tuple(talk.messages)) == talk.find(pattern)


def test_calls_without_results_and_with_pictures_are_not_compared():
    talk = repeated(5, A)
    lost = [message for message in talk.messages if not isinstance(message, ToolMessage)]
    picture = (MediaPart("image/png", data="AA"),)
    shown = [ToolMessage(m.tool_call_id, picture) if isinstance(m, ToolMessage) else m for m in talk.messages]

    assert tuple(lost) == find_repetition(lost).messages
    assert tuple(shown) == find_repetition(shown).messages
