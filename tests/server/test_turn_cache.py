"""Turns are found again however a client writes them, and by nobody else."""

import msgspec
import pytest

from fcshim.codecs.reply_store import ReplyStore
from fcshim.messages import AssistantMessage, MediaPart, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage
from fcshim.server.turn_cache import TurnCache


def user(text):
    return UserMessage((TextPart(text),))


def said(text, *calls):
    return AssistantMessage((TextPart(text),) if text else (), calls)


ASKED = (SystemMessage((TextPart("It is noon."),)), user("Hi"))
OURS = ToolCall("1", "ours", "{}")
THEIRS = ToolCall("2", "theirs", '{"a": 1, "b": [2]}')
RESULT = ToolMessage("1", (TextPart("found"), MediaPart("image/png", data="x")), "ours")
REAL = (said("Let me.", OURS, THEIRS), RESULT)
SHOWN = said("Let me.", THEIRS)
ANSWER = ToolMessage("2", (TextPart("done"),), "theirs")


@pytest.fixture
def recall():
    recall = TurnCache(ReplyStore())
    recall.store(b"me", ASKED, SHOWN, REAL)
    return recall


def test_the_visible_message_is_replaced_by_the_real_turn(recall):
    assert (*ASKED, *REAL, ANSWER) == recall.restore(b"me", (*ASKED, SHOWN, ANSWER))


def test_every_turn_of_a_conversation_is_restored(recall):
    before = (*ASKED, SHOWN, ANSWER)
    recall.store(b"me", before, said("End."), (said("", OURS), RESULT, said("End.")))
    found = recall.restore(b"me", (*before, said("End."), user("More")))

    assert (*ASKED, *REAL, ANSWER, said("", OURS), RESULT, said("End."), user("More")) == found


@pytest.mark.parametrize(
    "shown",
    [
        [said(" Let me. ", THEIRS)],
        [said("Let me."), said("", THEIRS)],
        [said("Let me.", ToolCall("2", "theirs", '{"b":[2],"a":1}'))],
    ],
)
def test_the_spelling_of_a_message_does_not_matter(shown, recall):
    assert (*ASKED, *REAL, ANSWER) == recall.restore(b"me", (*ASKED, *shown, ANSWER))


def test_call_ids_do_not_matter_and_become_the_clients(recall):
    other = msgspec.structs.replace(THEIRS, id="call_1_0")
    found = recall.restore(b"me", (*ASKED, said("Let me.", other)))

    assert (*ASKED, said("Let me.", OURS, other), RESULT) == found


def test_the_system_message_does_not_matter(recall):
    later = (SystemMessage((TextPart("It is one."),)), user("Hi"))

    assert (*later, *REAL) == recall.restore(b"me", (*later, SHOWN))


@pytest.mark.parametrize(
    ("owner", "messages"),
    [
        (b"other", (*ASKED, SHOWN)),
        (b"", (*ASKED, SHOWN)),
        (b"me", (*ASKED, user("Ho"), SHOWN)),
        (b"me", (user("Ho"), SHOWN)),
        (b"me", (SHOWN,)),
        (b"me", (*ASKED, said("Let me."))),
        (b"me", (*ASKED, said("Let me.", ToolCall("2", "theirs", "{}")))),
        (b"me", (*ASKED, said("Let me.", THEIRS, THEIRS))),
    ],
)
def test_another_client_or_conversation_restores_nothing(owner, messages, recall):
    assert messages == recall.restore(owner, messages)


def test_old_turns_are_evicted():
    recall = TurnCache(ReplyStore(max_entries=1))
    recall.store(b"", ASKED, SHOWN, REAL)
    recall.store(b"", (user("Another"),), SHOWN, REAL)

    assert (*ASKED, SHOWN) == recall.restore(b"", (*ASKED, SHOWN))
