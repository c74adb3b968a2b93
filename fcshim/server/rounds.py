"""Replies for which the model is asked in several rounds: its calls run in this proxy, or the client wants choices.

`ToolLoop` runs calls, and `TurnCache` keeps them for the next request; `ChoiceRounds` asks for further choices.

Rule: of tools, every call of a round gets a result before the model is asked again. If the round also has calls for the
client, only the server's own are executed and the reply ends; the client's next request continues it. The client sees
only the calls of tools that it asked its provider for. Cancelling the task stops the tools.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from fcshim.agent.loop import AgentLoop, assistant_message, executable_calls
from fcshim.errors import FcshimError
from fcshim.events import JSON, Error, Stop, WebToolUse
from fcshim.messages import AUTO, AssistantMessage, Message, Request, SystemMessage, TextPart, ToolCall, text_of
from fcshim.pipeline.attempt import Batch
from fcshim.prompt.repetition import canonical_arguments
from fcshim.server.merged_reply import MergedReply
from fcshim.server.store import StoredDocument
from fcshim.server.store.client_memory import ClientMemory
from fcshim.tools import Executor
from fcshim.tools.executor import CallListener

StoreTurn = Callable[[AssistantMessage, tuple[Message, ...]], None]
"""Stores a turn: the message that the client saw, and the messages that the turn really consists of."""

DescribeUse = Callable[[str], WebToolUse | None]
"""Returns what the client sees of the call with this id that was executed, None if the call is hidden."""


class ToolLoop:
    """The rounds of one reply whose model calls tools that run in this proxy: model, tools, model, until it answers.

    Send `request` to the model and `feed` the reply; until the loop is `finished`, call `next_round` and repeat.
    """

    def __init__(
        self,
        request: Request,
        executor: Executor,
        *,
        max_rounds: int,
        max_reply: int,
        store_turn: StoreTurn,
        describe_use: DescribeUse = lambda _: None,
        listener: CallListener = lambda _: None,
    ) -> None:
        self.request = request
        self._first_request = request
        self._server_tools = executor.registry.get_names()
        self._loop = AgentLoop(executor, max_rounds=max_rounds, own_tools=self._server_tools)
        self._max_reply = max_reply
        self._reply = self._new_reply()
        self._store_turn = store_turn
        self._describe_use = describe_use
        self._listener = listener

    @property
    def is_committed(self) -> bool:
        """Whether calls have been executed, so that the reply can no longer be restarted."""
        return bool(self._loop.messages)

    def restart(self) -> None:
        """Discard the reply so far, for another attempt."""
        self._reply = self._new_reply()

    @property
    def finished(self) -> bool:
        """Whether the client has the end of the reply."""
        return self._reply.finished

    def feed(self, batch: Batch) -> Batch:
        """Take the events of one upstream read; return those for the client. Raises `UpstreamError`."""
        visible = self._reply.feed(batch)
        if self.finished and self.is_committed and not isinstance(visible[-1][1], Error):
            last_message = assistant_message(self._reply.last_round, executable_calls(self._reply.last_round))
            self._store_turn(self._reply.visible_message, (*self._loop.messages, last_message))
        return visible

    async def next_round(self) -> Batch:
        """Execute the calls of the finished round.

        Returns events for the client; they end the reply if the client has to answer the rest of the calls. Raises
        `ModelOutputError` (kind `max_rounds`) if the model may not be asked again.
        """
        reply, loop = self._reply, self._loop
        await loop.run_tools(reply.last_round, self._listener)
        described = [self._describe_use(call.tool_call_id) for call in executable_calls(reply.last_round)]
        visible: Batch = [(0, use) for use in described if use is not None]
        if loop.finished:
            self._store_turn(reply.visible_message, loop.messages)
            return [*visible, *reply.close()]
        reply.start_round()
        first = self._first_request
        # A required call of one of the client's tools stays required until it has been made.
        callable_names = first.tool_choice.names or [tool.name for tool in first.tools]
        is_done = first.tool_choice.mode == "required" and all(name in self._server_tools for name in callable_names)
        choice = AUTO if is_done else first.tool_choice
        self.request = msgspec.structs.replace(first, messages=first.messages + loop.messages, tool_choice=choice)
        return visible

    def fail(self, batch: Batch, error: FcshimError) -> Batch:
        """Take the last events before an upstream failure; return those for the client.

        They end with an error event, unless the reply was already complete.
        """
        visible = [] if self.finished else self.feed(batch)
        if not self.finished:
            self._reply.finished = True
            visible.append((0, Error(kind=error.kind, message=error.message)))
        return visible

    def _new_reply(self) -> MergedReply:
        return MergedReply(self._server_tools, max_reply=self._max_reply)


class _CachedTurn(msgspec.Struct, frozen=True):
    """One turn: its real messages, and the ids of the calls that the client knows."""

    messages: list[Message]
    client_call_ids: list[str]


class TurnCache:
    """What one client does not see of its conversations: the calls that ran in the proxy, with their results.

    A client sends back the visible part of each turn. The cache finds the turn by a digest of the conversation up to
    it, as the client sends it, and substitutes the messages that the turn really consists of, so that the model sees
    its own calls. The digest ignores what clients change: call ids and the spelling of arguments (some APIs have no
    ids, some clients re-encode the JSON), and system messages (they may contain the time of day). It is looked up among
    the client's own documents, so that no client can find another client's turn. A turn that is not found (after a
    restart, an edit or an eviction) stays as the client sent it; the conversation is still valid, but the model no
    longer sees how it got its answer.

    Rule: memory is bounded. Nothing is added to a conversation unless this client received the visible part verbatim.
    """

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


class ChoiceRounds:
    """The rounds of one reply with several choices; each feeds those that are still missing, in their order.

    Many servers ignore `n`, and several APIs have no such option, so what the upstream has not given is asked for
    again, one choice at a time. `together`: the upstream's API has `n`, so the first round asks for all. A seed counts
    up from round to round, or all choices would be the same.
    """

    def __init__(self, request: Request, *, together: bool) -> None:
        self.request = request if together else msgspec.structs.replace(request, n=1)
        self._count = request.n
        self._missing = list(range(request.n))
        self._round_choices = self._missing
        self.finished = False

    @property
    def is_committed(self) -> bool:
        """Whether a round has ended, so that the reply can no longer be restarted."""
        return len(self._missing) < self._count

    def restart(self) -> None:
        """Discard the round so far: nothing is kept of it."""

    def feed(self, batch: Batch) -> Batch:
        """Take the events of one upstream read; return those for the client."""
        batch = [(self._round_choices[index], event) for index, event in batch]
        for index, event in batch:
            if isinstance(event, Stop):
                self._missing = [each for each in self._missing if each != index]
            self.finished = self.finished or isinstance(event, Error)
        self.finished = self.finished or not self._missing
        return batch

    async def next_round(self) -> Batch:
        """Begin the next round, with a request for one more choice."""
        seed = self.request.seed
        self.request = msgspec.structs.replace(self.request, n=1, seed=None if seed is None else seed + 1)
        self._round_choices = list(self._missing)
        return []

    def fail(self, batch: Batch, error: FcshimError) -> Batch:
        """Take the last events before an upstream failure; return those for the client, with an error at their end."""
        events = [] if self.finished else self.feed(batch)
        if not self.finished:
            self.finished = True
            events.append((self._missing[0], Error(kind=error.kind, message=error.message)))
        return events
