"""Turns are found however a client re-encodes them, and only by that client."""

import msgspec
import pytest

from fcshim.messages import AssistantMessage, MediaPart, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage
from fcshim.server.client_connection import ClientConnection
from fcshim.server.rounds import TurnCache
from fcshim.server.store import MemoryStore, StoreLimits
from fcshim.server.store.client_memory import ClientMemory


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


class Clients:
    """The turns of several clients in one store; each call is a request of its own."""

    def __init__(self, **limits):
        self.store_of_all = MemoryStore(StoreLimits(**limits))

    def _memory(self, key):
        headers = [(b"authorization", b"Bearer " + key)] if key else []
        scope = {"method": "POST", "raw_path": b"/", "headers": headers, "query_string": b""}
        return ClientMemory(self.store_of_all, ClientConnection(scope, None, None))

    async def store(self, key, *turn):
        memory = self._memory(key)
        TurnCache(memory).store(*turn)
        await memory.flush()

    async def restore(self, key, messages):
        return await TurnCache(self._memory(key)).restore(messages)


@pytest.fixture
async def cache():
    cache = Clients()
    await cache.store(b"me", ASKED, SHOWN, REAL)
    return cache


async def test_the_visible_message_is_replaced_by_the_real_turn(cache):
    assert (*ASKED, *REAL, ANSWER) == await cache.restore(b"me", (*ASKED, SHOWN, ANSWER))


async def test_every_turn_of_a_conversation_is_restored(cache):
    before = (*ASKED, SHOWN, ANSWER)
    await cache.store(b"me", before, said("End."), (said("", OURS), RESULT, said("End.")))
    found = await cache.restore(b"me", (*before, said("End."), user("More")))

    assert (*ASKED, *REAL, ANSWER, said("", OURS), RESULT, said("End."), user("More")) == found


@pytest.mark.parametrize(
    "shown",
    [
        [said(" Let me. ", THEIRS)],
        [said("Let me."), said("", THEIRS)],
        [said("Let me.", ToolCall("2", "theirs", '{"b":[2],"a":1}'))],
    ],
)
async def test_the_spelling_of_a_message_does_not_matter(shown, cache):
    assert (*ASKED, *REAL, ANSWER) == await cache.restore(b"me", (*ASKED, *shown, ANSWER))


async def test_call_ids_do_not_matter_and_become_the_clients(cache):
    other = msgspec.structs.replace(THEIRS, id="call_1_0")
    found = await cache.restore(b"me", (*ASKED, said("Let me.", other)))

    assert (*ASKED, said("Let me.", OURS, other), RESULT) == found


async def test_the_system_message_does_not_matter(cache):
    later = (SystemMessage((TextPart("It is one."),)), user("Hi"))

    assert (*later, *REAL) == await cache.restore(b"me", (*later, SHOWN))


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
async def test_another_client_or_conversation_restores_nothing(owner, messages, cache):
    assert messages == await cache.restore(owner, messages)


async def test_old_turns_are_evicted():
    cache = Clients(entries=1)
    await cache.store(b"", ASKED, SHOWN, REAL)
    await cache.store(b"", (user("Another"),), SHOWN, REAL)

    assert (*ASKED, SHOWN) == await cache.restore(b"", (*ASKED, SHOWN))


class Damaging(MemoryStore):
    """A store whose turns are changed behind our back."""

    def __init__(self, damage):
        super().__init__(StoreLimits())
        self._damage = damage

    async def find(self, owner, names):
        return {name: self._damage(value) for name, value in (await super().find(owner, names)).items()}


@pytest.mark.security
@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"\x91" * 100_000,
        lambda value: value[:-1],
        lambda value: msgspec.msgpack.encode({**msgspec.msgpack.decode(value), "client_call_ids": ["1", "2", "3"]}),
    ],
)
async def test_a_damaged_turn_counts_as_not_stored(damage):
    cache = Clients()
    cache.store_of_all = Damaging(damage)
    await cache.store(b"me", ASKED, SHOWN, REAL)

    assert (*ASKED, SHOWN, ANSWER) == await cache.restore(b"me", (*ASKED, SHOWN, ANSWER))
