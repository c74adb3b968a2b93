"""The loop, told as it happens: what the model says, what becomes of its calls, each round's end.

Rule: leaving the events, or cancelling whoever reads them, stops the model and the tools at once. What goes wrong with
a call is told to the model; what goes wrong with the model is raised.
Neighbours: `loop` is the same without events; `tools.executor` does the work of the calls.
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
    """A reply with the results of its calls is over. `answer`: what the agent answers; null where it goes on."""

    reply: Reply
    messages: tuple[Message, ...]
    answer: str | None


AgentEvent: TypeAlias = Event | CallEvent | RoundEnded


class ReplyStream(Protocol):
    """The events of one reply, as they come; closing them stops the model."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def aclose(self) -> None:
        """Stop the model."""


AskModel: TypeAlias = Callable[[tuple[Message, ...], tuple[Tool, ...]], ReplyStream]
"""Asks the model to go on with a conversation, with these tools: `client.stream`, say."""


class Agent:
    """A model with tools. The tools may change between rounds; the model is told what there is then."""

    def __init__(self, ask: AskModel, tools: Executor, *, max_rounds: int = DEFAULT_MAX_ROUNDS) -> None:
        if max_rounds < 1:
            raise ConfigError("max_rounds must be at least 1")
        self._ask = ask
        self._tools = tools
        self._max_rounds = max_rounds

    async def run(self, messages: str | Sequence[Message]) -> AsyncGenerator[AgentEvent, None]:
        """Let the model call tools until it answers, and tell everything; the last event is the last round's end.

        Raises `UpstreamError` where the model's endpoint fails, and `ModelOutputError` (kind `max_rounds`) when the
        last allowed reply calls again; those calls are not executed.
        """
        given = [UserMessage((TextPart(messages),))] if isinstance(messages, str) else messages
        conversation: tuple[Message, ...] = tuple(given)
        for number in range(1, self._max_rounds + 1):
            said: list[Event] = []
            async with aclosing(self._ask(conversation, self._tools.definitions)) as replies:
                async for event in replies:
                    said.append(event)
                    yield event
            reply = _fold_reply(said)
            calls = executable_calls(reply)
            if calls and number == self._max_rounds:
                raise max_rounds_error(self._max_rounds)
            results: list[CallFinished] = []
            async with aclosing(self._execute(calls)) as happening:
                async for each in happening:
                    yield each
                    if isinstance(each, CallFinished):
                        results.append(each)
            ended = _end_round(conversation, reply, calls, results)
            yield ended
            if ended.answer is not None:
                return
            conversation = ended.messages

    async def answer(self, messages: str | Sequence[Message]) -> RoundEnded:
        """Run to the end and give the last round's. Raises as `run` does."""
        ended: RoundEnded | None = None
        async with aclosing(self.run(messages)) as events:
            async for event in events:
                ended = event if isinstance(event, RoundEnded) else ended
        assert ended is not None
        return ended

    async def _execute(self, calls: Sequence[ToolCallEnd]) -> AsyncGenerator[CallEvent, None]:
        """Execute calls, telling what becomes of them while they run."""
        happening: asyncio.Queue[CallEvent | None] = asyncio.Queue()
        running = asyncio.create_task(self._tools.execute(calls, happening.put_nowait))
        running.add_done_callback(lambda _: happening.put_nowait(None))
        try:
            while (event := await happening.get()) is not None:
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
    """Put a round together, the results in the order of the calls."""
    by_id: dict[str, ToolMessage] = {result.message.tool_call_id: result.message for result in results}
    messages = (*conversation, assistant_message(reply, calls), *(by_id[call.tool_call_id] for call in calls))
    final = [text_of(result.message.content) for result in results if result.final]
    if final:
        return RoundEnded(reply, messages, "\n".join(final))
    return RoundEnded(reply, messages, None if calls else reply.text)
