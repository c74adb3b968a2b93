"""What clients were not shown of a conversation: the calls that ran here, with their results.

Theory of operation. A client sends back what it was shown of a turn. The turn is found by a digest of the conversation
up to it, as the client sends it, and what really was is put in its place, so that the model goes on knowing what it
did. Ids and spelling of arguments do not count, since some APIs have none and some clients write anew; neither do
system messages, which may hold the time of day. The digest begins with the client's key: nobody finds a turn that was
not made for them. Whatever cannot be found (a restart, a conversation that was edited or pushed out by later ones)
stays as the client tells it, which is a sound conversation, too, in which the model has forgotten how it knew.

Rule: bounded; nothing is ever added to a conversation that this client did not have word for word.
Neighbours: `course` keeps turns here, `own_tools` restores them.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from fcshim.codecs.reply_store import ReplyStore
from fcshim.events import JSON
from fcshim.messages import AssistantMessage, MediaPart, Message, SystemMessage, TextPart, ToolCall, text_of


class _CachedTurn(msgspec.Struct, frozen=True):
    """One turn: the messages that it really was, and the ids of the calls that the client knows of."""

    messages: list[Message]
    client_call_ids: list[str]


class TurnCache:
    """The turns of all clients."""

    def __init__(self, reply_store: ReplyStore) -> None:
        self._reply_store = reply_store

    def store(
        self, owner: bytes, history: Sequence[Message], visible: AssistantMessage, messages: Iterable[Message]
    ) -> None:
        """Remember what a turn really was that came after the messages `before`, as the client has them."""
        *_, (_, name) = _split_turns(owner, [*history, visible])
        kept = _CachedTurn(list(messages), [call.id for call in visible.tool_calls])
        self._reply_store.put(name, msgspec.msgpack.encode(kept))

    def restore(self, owner: bytes, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Put what really was in the place of every turn that is remembered."""
        restored: list[Message] = []
        for run, name in _split_turns(owner, messages):
            document = self._reply_store.get(name) if name else None
            restored += (
                run if document is None else _restore_turn(msgspec.msgpack.decode(document, type=_CachedTurn), run)
            )
        return tuple(restored)


def _split_turns(owner: bytes, messages: Sequence[Message]) -> Iterator[tuple[list[Message], str]]:
    """Cut a conversation into turns; give with each of the model's its name, the digest of all up to it."""
    digest = hashlib.sha256(b"%d:%b" % (len(owner), owner))
    for _, group in itertools.groupby(messages, key=_is_assistant):
        run = list(group)
        digest.update(msgspec.json.encode(_canonical_messages(run)))
        yield run, digest.hexdigest() if _is_assistant(run[0]) else ""


def _is_assistant(message: Message) -> bool:
    return isinstance(message, AssistantMessage)


def _canonical_messages(run: Sequence[Message]) -> list[JSON]:
    """Give what stays the same of messages however a client writes them."""
    if not _is_assistant(run[0]):
        told = [message for message in run if not isinstance(message, SystemMessage)]
        return [[type(message).__name__, *map(_canonical_part, message.content)] for message in told]
    said = "".join(text_of(message.content) for message in run).strip()
    return ["said", said, *([call.name, _canonical_arguments(call.arguments)] for call in _calls(run))]


def _canonical_part(part: TextPart | MediaPart) -> JSON:
    return part.text if isinstance(part, TextPart) else [part.media_type, part.url, part.data]


def _canonical_arguments(arguments: str) -> JSON:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _calls(run: Iterable[Message]) -> list[ToolCall]:
    return [call for message in run if isinstance(message, AssistantMessage) for call in message.tool_calls]


def _restore_turn(cached: _CachedTurn, run: Sequence[Message]) -> list[Message]:
    """Give what was, with the ids that the client has for its calls."""
    ids = dict(zip(cached.client_call_ids, (call.id for call in _calls(run)), strict=True))
    return [_with_call_ids(message, ids) for message in cached.messages]


def _with_call_ids(message: Message, ids: Mapping[str, str]) -> Message:
    if not isinstance(message, AssistantMessage):
        return message
    calls = tuple(msgspec.structs.replace(call, id=ids.get(call.id, call.id)) for call in message.tool_calls)
    return msgspec.structs.replace(message, tool_calls=calls)
