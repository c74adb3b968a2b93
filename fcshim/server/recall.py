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


class _Kept(msgspec.Struct, frozen=True):
    """One turn: the messages that it really was, and the ids of the calls that the client knows of."""

    messages: list[Message]
    ids: list[str]


class Recall:
    """The turns of all clients."""

    def __init__(self, memory: ReplyStore) -> None:
        self._memory = memory

    def keep(self, owner: bytes, before: Sequence[Message], shown: AssistantMessage, real: Iterable[Message]) -> None:
        """Remember what a turn really was that came after the messages `before`, as the client has them."""
        *_, (_, name) = _turns(owner, [*before, shown])
        kept = _Kept(list(real), [call.id for call in shown.tool_calls])
        self._memory.put(name, msgspec.msgpack.encode(kept))

    def restore(self, owner: bytes, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Put what really was in the place of every turn that is remembered."""
        restored: list[Message] = []
        for run, name in _turns(owner, messages):
            document = self._memory.get(name) if name else None
            restored += run if document is None else _put_back(msgspec.msgpack.decode(document, type=_Kept), run)
        return tuple(restored)


def _turns(owner: bytes, messages: Sequence[Message]) -> Iterator[tuple[list[Message], str]]:
    """Cut a conversation into turns; give with each of the model's its name, the digest of all up to it."""
    digest = hashlib.sha256(b"%d:%b" % (len(owner), owner))
    for _, group in itertools.groupby(messages, key=_is_spoken):
        run = list(group)
        digest.update(msgspec.json.encode(_essence(run)))
        yield run, digest.hexdigest() if _is_spoken(run[0]) else ""


def _is_spoken(message: Message) -> bool:
    return isinstance(message, AssistantMessage)


def _essence(run: Sequence[Message]) -> list[JSON]:
    """Give what stays the same of messages however a client writes them."""
    if not _is_spoken(run[0]):
        told = [message for message in run if not isinstance(message, SystemMessage)]
        return [[type(message).__name__, *map(_part, message.content)] for message in told]
    said = "".join(text_of(message.content) for message in run).strip()
    return ["said", said, *([call.name, _value(call.arguments)] for call in _calls(run))]


def _part(part: TextPart | MediaPart) -> JSON:
    return part.text if isinstance(part, TextPart) else [part.media_type, part.url, part.data]


def _value(arguments: str) -> JSON:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _calls(run: Iterable[Message]) -> list[ToolCall]:
    return [call for message in run if isinstance(message, AssistantMessage) for call in message.tool_calls]


def _put_back(kept: _Kept, run: Sequence[Message]) -> list[Message]:
    """Give what was, with the ids that the client has for its calls."""
    ids = dict(zip(kept.ids, (call.id for call in _calls(run)), strict=True))
    return [_renamed(message, ids) for message in kept.messages]


def _renamed(message: Message, ids: Mapping[str, str]) -> Message:
    if not isinstance(message, AssistantMessage):
        return message
    calls = tuple(msgspec.structs.replace(call, id=ids.get(call.id, call.id)) for call in message.tool_calls)
    return msgspec.structs.replace(message, tool_calls=calls)
