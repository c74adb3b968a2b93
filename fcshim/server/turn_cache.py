"""Stores what clients do not see of a conversation: the calls that ran in the proxy, with their results.

Theory of operation. A client sends back the visible part of each turn. The cache finds the turn by a digest of the
conversation up to it, as the client sends it, and substitutes the messages that the turn really consists of, so that
the model sees its own calls. The digest ignores what clients change: call ids and the spelling of arguments (some APIs
have no ids, some clients re-encode the JSON), and system messages (they may contain the time of day). It is looked up
among the client's own documents, so that no client can find another client's turn. A turn that is not found (after a
restart, an edit or an eviction) stays as the client sent it; the conversation is still valid, but the model no longer
sees how it got its answer.

Rule: memory is bounded. Nothing is added to a conversation unless this client received the visible part verbatim.
"""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from fcshim.events import JSON
from fcshim.messages import AssistantMessage, Message, SystemMessage, TextPart, ToolCall, text_of
from fcshim.prompt.repetition import canonical_arguments
from fcshim.server.store import StoredDocument
from fcshim.server.store.client_memory import ClientMemory


class _CachedTurn(msgspec.Struct, frozen=True):
    """One turn: its real messages, and the ids of the calls that the client knows."""

    messages: list[Message]
    client_call_ids: list[str]


class TurnCache:
    """The turns of one client, among its documents."""

    def __init__(self, memory: ClientMemory) -> None:
        self._memory = memory

    def store(self, history: Sequence[Message], visible: AssistantMessage, messages: Iterable[Message]) -> None:
        """Store, with the end of the reply, a turn that follows `history` and that the client sees as `visible`."""
        *_, (_, name) = _split_turns([*history, visible])
        turn = _CachedTurn(list(messages), [call.id for call in visible.tool_calls])
        self._memory.add(StoredDocument(name, msgspec.msgpack.encode(turn)))

    async def restore(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages with the real ones of every turn that was stored. Raises `StoreError`."""
        turns = list(_split_turns(messages))
        names = [name for _, name in turns if name]
        documents = await self._memory.find(names) if names else {}
        restored: list[Message] = []
        for group, name in turns:
            cached = _read_turn(documents.get(name), len(_calls(group)))
            restored += group if cached is None else _restore_turn(cached, group)
        return tuple(restored)


def _read_turn(document: bytes | None, call_count: int) -> _CachedTurn | None:
    """Read a turn; None if it is not stored, or damaged, or of another release, or if the client knows other calls."""
    try:
        turn = None if document is None else msgspec.msgpack.decode(document, type=_CachedTurn)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return None if turn is None or len(turn.client_call_ids) != call_count else turn


def _split_turns(messages: Sequence[Message]) -> Iterator[tuple[list[Message], str]]:
    """Split a conversation into turns.

    Yields each with its name if it is the model's, else with an empty string. The digest in the name covers everything
    up to it.
    """
    digest = hashlib.sha256()
    for _, group in itertools.groupby(messages, key=_is_assistant):
        turn = list(group)
        digest.update(msgspec.json.encode(_canonical_messages(turn)))
        yield turn, f"turn:{digest.hexdigest()}" if _is_assistant(turn[0]) else ""


def _is_assistant(message: Message) -> bool:
    return isinstance(message, AssistantMessage)


def _canonical_messages(messages: Sequence[Message]) -> list[JSON]:
    """Return the parts of messages that stay the same however a client re-encodes them."""
    if not _is_assistant(messages[0]):
        canonical: list[JSON] = []
        for message in messages:
            if not isinstance(message, SystemMessage):
                parts = [
                    part.text if isinstance(part, TextPart) else [part.media_type, part.url, part.data]
                    for part in message.content
                ]
                canonical.append([type(message).__name__, *parts])
        return canonical
    text = "".join(text_of(message.content) for message in messages).strip()
    return ["said", text, *([call.name, canonical_arguments(call.arguments)] for call in _calls(messages))]


def _calls(messages: Iterable[Message]) -> list[ToolCall]:
    return [call for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls]


def _restore_turn(cached: _CachedTurn, sent: Sequence[Message]) -> list[Message]:
    """Return the real messages of a turn, with the call ids that the client uses."""
    ids = dict(zip(cached.client_call_ids, (call.id for call in _calls(sent)), strict=True))
    restored: list[Message] = []
    for message in cached.messages:
        if isinstance(message, AssistantMessage):
            calls = tuple(msgspec.structs.replace(call, id=ids.get(call.id, call.id)) for call in message.tool_calls)
            restored.append(msgspec.structs.replace(message, tool_calls=calls))
        else:
            restored.append(message)
    return restored
