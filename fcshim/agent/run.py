"""The agent loop as a stream of events: the reply, the progress of its calls, and the end of each round.

Rule: closing the stream, or cancelling its reader, stops the model and the tools at once. Errors of a call go to the
model; errors of the model's endpoint are raised. `loop` is the same without events.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Protocol, TypeAlias

import msgspec

from fcshim.agent.loop import DEFAULT_MAX_ROUNDS, assistant_message, executable_calls, max_rounds_error
from fcshim.errors import ConfigError, UpstreamError
from fcshim.events import Error, Event, ToolCallEnd
from fcshim.messages import Message, TextPart, Tool, ToolMessage, UserMessage, text_of
from fcshim.reply import Reply, fold
from fcshim.tools import CallEvent, CallFinished, Executor


class RoundEnded(msgspec.Struct, frozen=True, tag="round_ended", tag_field="type"):
    """A round has ended: a reply and the results of its calls. `answer` is the agent's, null in all but the last."""

    reply: Reply
    messages: tuple[Message, ...]
    answer: str | None


AgentEvent: TypeAlias = Event | CallEvent | RoundEnded


class ReplyStream(Protocol):
    """The events of one reply, as they come; closing the stream stops the model."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def aclose(self) -> None:
        """Stop the model."""


AskModel: TypeAlias = Callable[[tuple[Message, ...], tuple[Tool, ...]], ReplyStream]
"""Requests the model's next reply to a conversation with these tools; `Client.stream` fits."""


class Agent:
    """A model with tools. The tools may change between rounds; each request offers the current ones."""

    def __init__(self, ask: AskModel, tools: Executor, *, max_rounds: int = DEFAULT_MAX_ROUNDS) -> None:
        if max_rounds < 1:
            raise ConfigError("max_rounds must be at least 1")
        self._ask = ask
        self._tools = tools
        self._max_rounds = max_rounds

    async def run(self, messages: str | Sequence[Message]) -> AsyncGenerator[AgentEvent, None]:
        """Let the model call tools until it answers; yield all events, the last of which is the last round's end.

        Raises `UpstreamError` if the model's endpoint fails, and `ModelOutputError` (kind `max_rounds`) if the last
        allowed reply still has calls; these are not executed.
        """
        given = [UserMessage((TextPart(messages),))] if isinstance(messages, str) else messages
        conversation: tuple[Message, ...] = tuple(given)
        for number in range(1, self._max_rounds + 1):
            reply_events: list[Event] = []
            async with aclosing(self._ask(conversation, self._tools.definitions)) as replies:
                async for event in replies:
                    reply_events.append(event)
                    yield event
            reply = _fold_reply(reply_events)
            calls = executable_calls(reply)
            if calls and number == self._max_rounds:
                raise max_rounds_error(self._max_rounds)
            results: list[CallFinished] = []
            async with aclosing(self._execute(calls)) as call_events:
                async for call_event in call_events:
                    yield call_event
                    if isinstance(call_event, CallFinished):
                        results.append(call_event)
            ended = _end_round(conversation, reply, calls, results)
            yield ended
            if ended.answer is not None:
                return
            conversation = ended.messages

    async def answer(self, messages: str | Sequence[Message]) -> RoundEnded:
        """Run until the model answers and return the last round's end. Raises as `run` does."""
        ended: RoundEnded | None = None
        async with aclosing(self.run(messages)) as events:
            async for event in events:
                ended = event if isinstance(event, RoundEnded) else ended
        assert ended is not None
        return ended

    async def _execute(self, calls: Sequence[ToolCallEnd]) -> AsyncGenerator[CallEvent, None]:
        """Execute calls and yield their events while they run."""
        queue: asyncio.Queue[CallEvent | None] = asyncio.Queue()
        running = asyncio.create_task(self._tools.execute(calls, queue.put_nowait))
        running.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _fold_reply(events: Sequence[Event]) -> Reply:
    for event in events:
        if isinstance(event, Error):
            raise UpstreamError(event.message, kind=event.kind)
    return fold(events)


def _end_round(
    conversation: tuple[Message, ...], reply: Reply, calls: Sequence[ToolCallEnd], results: Sequence[CallFinished]
) -> RoundEnded:
    """Make the end of a round, with the results in the order of the calls."""
    by_id: dict[str, ToolMessage] = {result.message.tool_call_id: result.message for result in results}
    messages = (*conversation, assistant_message(reply, calls), *(by_id[call.tool_call_id] for call in calls))
    final = [text_of(result.message.content) for result in results if result.final]
    if final:
        return RoundEnded(reply, messages, "\n".join(final))
    return RoundEnded(reply, messages, None if calls else reply.text)
