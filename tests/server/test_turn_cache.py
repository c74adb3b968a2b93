"""Turns are found however a client re-encodes them, and only by that client."""

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
def cache():
    cache = TurnCache(ReplyStore())
    cache.store(b"me", ASKED, SHOWN, REAL)
    return cache


def test_the_visible_message_is_replaced_by_the_real_turn(cache):
    assert (*ASKED, *REAL, ANSWER) == cache.restore(b"me", (*ASKED, SHOWN, ANSWER))


def test_every_turn_of_a_conversation_is_restored(cache):
    before = (*ASKED, SHOWN, ANSWER)
    cache.store(b"me", before, said("End."), (said("", OURS), RESULT, said("End.")))
    found = cache.restore(b"me", (*before, said("End."), user("More")))

    assert (*ASKED, *REAL, ANSWER, said("", OURS), RESULT, said("End."), user("More")) == found


@pytest.mark.parametrize(
    "shown",
    [
        [said(" Let me. ", THEIRS)],
        [said("Let me."), said("", THEIRS)],
        [said("Let me.", ToolCall("2", "theirs", '{"b":[2],"a":1}'))],
    ],
)
def test_the_spelling_of_a_message_does_not_matter(shown, cache):
    assert (*ASKED, *REAL, ANSWER) == cache.restore(b"me", (*ASKED, *shown, ANSWER))


def test_call_ids_do_not_matter_and_become_the_clients(cache):
    other = msgspec.structs.replace(THEIRS, id="call_1_0")
    found = cache.restore(b"me", (*ASKED, said("Let me.", other)))

    assert (*ASKED, said("Let me.", OURS, other), RESULT) == found


def test_the_system_message_does_not_matter(cache):
    later = (SystemMessage((TextPart("It is one."),)), user("Hi"))

    assert (*later, *REAL) == cache.restore(b"me", (*later, SHOWN))


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
def test_another_client_or_conversation_restores_nothing(owner, messages, cache):
    assert messages == cache.restore(owner, messages)


def test_old_turns_are_evicted():
    cache = TurnCache(ReplyStore(max_entries=1))
    cache.store(b"", ASKED, SHOWN, REAL)
    cache.store(b"", (user("Another"),), SHOWN, REAL)

    assert (*ASKED, SHOWN) == cache.restore(b"", (*ASKED, SHOWN))
