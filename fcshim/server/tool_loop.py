"""The course of one reply whose model has tools that run here: model, tools, model, until it answers.

Rule: the calls of a round are all answered before the model is asked again; where the client has calls to answer, too,
ours are executed, the reply ends, and the client's next request goes on. Cancelling stops the tools.
Neighbours: `turn` says what the client sees, `recall` keeps what it does not; `chat` asks the upstream.
"""

from collections.abc import Callable

import msgspec

from fcshim.agent.loop import assistant_message, executable_calls, max_rounds_error
from fcshim.errors import FcshimError
from fcshim.events import Error
from fcshim.exchange import Batch
from fcshim.messages import AssistantMessage, Message, Request
from fcshim.server.merged_reply import MergedReply
from fcshim.tools import Executor

StoreTurn = Callable[[AssistantMessage, tuple[Message, ...]], None]
"""Remembers a turn: what the client saw of it, and what it was."""


class ToolLoop:
    """One reply. Ask the model what `request` says, `feed` what it answers; until it is `over`, `go_on` and repeat."""

    def __init__(
        self, request: Request, executor: Executor, *, max_rounds: int, max_reply: int, store_turn: StoreTurn
    ) -> None:
        self.request = request
        self._first_request = request
        self._executor = executor
        self._max_reply = max_reply
        self._reply = self._new_reply()
        self._rounds_left = max_rounds
        self._max_rounds = max_rounds
        self._store_turn = store_turn
        self._added_messages: tuple[Message, ...] = ()

    @property
    def has_run_tools(self) -> bool:
        """Whether calls have been executed: what the model said stands."""
        return bool(self._added_messages)

    def restart(self) -> None:
        """Forget what the model said so far, to ask it once more."""
        self._reply = self._new_reply()

    @property
    def finished(self) -> bool:
        """Whether the client has seen the end."""
        return self._reply.finished

    def feed(self, batch: Batch) -> Batch:
        """Take the events of one upstream read; give those that the client sees. Raises `UpstreamError`."""
        seen = self._reply.feed(batch)
        if self.finished and self._added_messages and not isinstance(seen[-1][1], Error):
            last = assistant_message(self._reply.last_round, executable_calls(self._reply.last_round))
            self._store_turn(self._reply.visible_message, (*self._added_messages, last))
        return seen

    async def run_tools(self) -> Batch:
        """Answer the calls of the round that has ended; give what ends the reply where the rest is the client's to do.

        Raises `ModelOutputError` (kind `max_rounds`) instead where the model may not be asked again.
        """
        turn = self._reply
        self._rounds_left -= 1
        if not self._rounds_left and not turn.has_client_calls:
            raise max_rounds_error(self._max_rounds)
        calls = executable_calls(turn.last_round)
        answered = turn.server_calls if turn.has_client_calls else calls
        results = await self._executor.execute(answered)
        told = [call for call in calls if call.error is None or call in answered]
        self._added_messages += (assistant_message(turn.last_round, told), *results)
        if turn.has_client_calls:
            self._store_turn(turn.visible_message, self._added_messages)
            return turn.close()
        turn.start_round()
        # A call that was demanded is demanded of the client's tools, so the demand stands until one comes.
        self.request = msgspec.structs.replace(
            self._first_request, messages=self._first_request.messages + self._added_messages
        )
        return []

    def fail(self, batch: Batch, error: FcshimError) -> Batch:
        """Take the last events of an upstream that was lost; give what the client sees, an error unless all is said."""
        seen = [] if self.finished else self.feed(batch)
        if not self.finished:
            self._reply.finished = True
            seen.append((0, Error(kind=error.kind, message=error.message)))
        return seen

    def _new_reply(self) -> MergedReply:
        return MergedReply(self._executor.registry.get_names(), max_reply=self._max_reply)
