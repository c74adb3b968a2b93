"""The course of one reply whose model has tools that run here: model, tools, model, until it answers.

Rule: the calls of a round are all answered before the model is asked again; where the client has calls to answer, too,
ours are executed, the reply ends, and the client's next request goes on. Cancelling stops the tools.
Neighbours: `turn` says what the client sees, `recall` keeps what it does not; `chat` asks the upstream.
"""

from collections.abc import Callable

import msgspec

from fcshim.agent.loop import meant_calls, spoken, still_calling
from fcshim.errors import FcshimError
from fcshim.events import Error
from fcshim.exchange import Batch
from fcshim.messages import AssistantMessage, Message, Request
from fcshim.server.turn import Turn
from fcshim.tools import Executor

Keep = Callable[[AssistantMessage, tuple[Message, ...]], None]
"""Remembers a turn: what the client saw of it, and what it was."""


class Course:
    """One reply. Ask the model what `request` says, `feed` what it answers; until it is `over`, `go_on` and repeat."""

    def __init__(self, request: Request, tools: Executor, *, max_rounds: int, max_reply: int, keep: Keep) -> None:
        self.request = request
        self._asked = request
        self._tools = tools
        self._max_reply = max_reply
        self._turn = self._new_turn()
        self._left = max_rounds
        self._max_rounds = max_rounds
        self._keep = keep
        self._done: tuple[Message, ...] = ()

    @property
    def begun(self) -> bool:
        """Whether calls have been executed: what the model said stands."""
        return bool(self._done)

    def restart(self) -> None:
        """Forget what the model said so far, to ask it once more."""
        self._turn = self._new_turn()

    @property
    def over(self) -> bool:
        """Whether the client has seen the end."""
        return self._turn.over

    def feed(self, batch: Batch) -> Batch:
        """Take the events of one upstream read; give those that the client sees. Raises `UpstreamError`."""
        seen = self._turn.feed(batch)
        if self.over and self._done and not isinstance(seen[-1][1], Error):
            last = spoken(self._turn.reply, meant_calls(self._turn.reply))
            self._keep(self._turn.visible, (*self._done, last))
        return seen

    async def go_on(self) -> Batch:
        """Answer the calls of the round that has ended; give what ends the reply where the rest is the client's to do.

        Raises `ModelOutputError` (kind `max_rounds`) instead where the model may not be asked again.
        """
        turn = self._turn
        self._left -= 1
        if not self._left and not turn.mixed:
            raise still_calling(self._max_rounds)
        calls = meant_calls(turn.reply)
        answered = turn.ours if turn.mixed else calls
        results = await self._tools.execute(answered)
        told = [call for call in calls if call.error is None or call in answered]
        self._done += (spoken(turn.reply, told), *results)
        if turn.mixed:
            self._keep(turn.visible, self._done)
            return turn.close()
        turn.next_round()
        # A call that was demanded is demanded of the client's tools, so the demand stands until one comes.
        self.request = msgspec.structs.replace(self._asked, messages=self._asked.messages + self._done)
        return []

    def fail(self, batch: Batch, error: FcshimError) -> Batch:
        """Take the last events of an upstream that was lost; give what the client sees, an error unless all is said."""
        seen = [] if self.over else self.feed(batch)
        if not self.over:
            self._turn.over = True
            seen.append((0, Error(kind=error.kind, message=error.message)))
        return seen

    def _new_turn(self) -> Turn:
        return Turn(self._tools.registry.get_names(), max_reply=self._max_reply)
