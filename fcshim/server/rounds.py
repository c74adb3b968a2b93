"""Replies for which the model is asked in several rounds: its calls run in this proxy, or the client wants choices.

Rule: of tools, every call of a round gets a result before the model is asked again. If the round also has calls for the
client, only the server's own are executed and the reply ends; the client's next request continues it. The client sees
only the calls of tools that it asked its provider for. Cancelling the task stops the tools.
"""

from collections.abc import Callable

import msgspec

from fcshim.agent.loop import AgentLoop, assistant_message, executable_calls
from fcshim.errors import FcshimError
from fcshim.events import Error, Stop, WebToolUse
from fcshim.messages import AUTO, AssistantMessage, Message, Request
from fcshim.pipeline.attempt import Batch
from fcshim.server.merged_reply import MergedReply
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
