"""The agent loop as a stream of events: the reply, the progress of its calls, and the end of each round.

Rule: closing the stream, or cancelling its reader, stops the model and the tools at once. Errors of a call go to the
model; errors of the model's endpoint are raised. `loop` is the same without events.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TypeAlias

import msgspec

from fcshim.agent.loop import DEFAULT_MAX_ROUNDS, AgentLoop, check_max_rounds, check_mended
from fcshim.errors import UpstreamError
from fcshim.events import JSON, Error, Event
from fcshim.messages import Message, SystemMessage, TextPart, Tool, UserMessage
from fcshim.reply import Reply, fold
from fcshim.tools import AnyTool, CallEvent, Executor, Registry


class RoundEnded(msgspec.Struct, frozen=True, tag="round_ended", tag_field="type"):
    """A round has ended: a reply and the results of its calls. `answer` is the agent's, null in all but the last."""

    reply: Reply
    messages: tuple[Message, ...]
    answer: str | None


AgentEvent: TypeAlias = Event | CallEvent | RoundEnded


AskModel: TypeAlias = Callable[[tuple[Message, ...], tuple[Tool, ...]], AsyncIterable[Event]]
"""Requests the model's next reply to a conversation with these tools, and gives its events as they come.

`Client.stream` fits. If what it returns has `aclose`, that is called at the end, and stops the model.
"""


class Agent:
    """A model with tools. The tools may change between rounds; each request offers the current ones.

    `instructions` are sent before every conversation, as a system message outside its messages.
    """

    def __init__(
        self,
        ask: AskModel,
        tools: Executor | Registry | Iterable[AnyTool | Callable[..., JSON]],
        *,
        instructions: str = "",
        max_rounds: int = DEFAULT_MAX_ROUNDS,
    ) -> None:
        check_max_rounds(max_rounds)
        self._ask = ask
        self._tools = tools if isinstance(tools, Executor) else Executor(tools)
        self._instructions = (SystemMessage((TextPart(instructions),)),) if instructions else ()
        self._max_rounds = max_rounds

    async def run(self, messages: str | Sequence[Message]) -> AsyncGenerator[AgentEvent, None]:
        """Let the model call tools until it answers; yield all events, the last of which is the last round's end.

        Raises `UpstreamError` if the model's endpoint fails, and `ModelOutputError`: kind `max_rounds` if the last
        allowed reply still has calls, which are not executed; `invalid_call` if a call stayed invalid after all
        retries, as far as the stream of a reply reports it (`EventStream.remaining_defects`).
        """
        given = [UserMessage((TextPart(messages),))] if isinstance(messages, str) else messages
        loop = AgentLoop(self._tools, given, max_rounds=self._max_rounds)
        while not loop.finished:
            reply_events: list[Event] = []
            async with _closing(self._ask((*self._instructions, *loop.messages), self._tools.definitions)) as replies:
                async for event in replies:
                    reply_events.append(event)
                    yield event
            for event in reply_events:
                if isinstance(event, Error):
                    raise UpstreamError(event.message, kind=event.kind)
            reply = fold(reply_events)
            check_mended(reply, getattr(replies, "remaining_defects", ""), getattr(replies, "raw_text", ""))
            async with aclosing(_run_tools(loop, reply)) as call_events:
                async for call_event in call_events:
                    yield call_event
            yield RoundEnded(reply, loop.messages, loop.answer)

    async def answer(self, messages: str | Sequence[Message]) -> RoundEnded:
        """Run until the model answers and return the last round's end. Raises as `run` does."""
        ended: RoundEnded | None = None
        async with aclosing(self.run(messages)) as events:
            async for event in events:
                ended = event if isinstance(event, RoundEnded) else ended
        assert ended is not None
        return ended


@asynccontextmanager
async def _closing(replies: AsyncIterable[Event]) -> AsyncIterator[AsyncIterable[Event]]:
    """Close a stream at the end of the block, if it can be closed."""
    try:
        yield replies
    finally:
        if (close := getattr(replies, "aclose", None)) is not None:
            await close()


async def _run_tools(loop: AgentLoop, reply: Reply) -> AsyncGenerator[CallEvent, None]:
    """Execute the calls of a reply and yield their events while they run."""
    queue: asyncio.Queue[CallEvent | None] = asyncio.Queue()
    running = asyncio.create_task(loop.run_tools(reply, queue.put_nowait))
    running.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
        await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
