"""The loop model -> tools -> model, until the model answers without a call. Client, agents and the proxy use it.

Rule: the model gets every error of a call as its result. The calls of a truncated reply are not executed.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import TypeAlias

import msgspec

from fcshim.errors import ConfigError, ModelOutputError
from fcshim.events import ToolCallEnd
from fcshim.messages import AssistantMessage, Message, TextPart, ToolCall, text_of
from fcshim.reply import Reply
from fcshim.tools import CallEvent, CallFinished, Executor
from fcshim.tools.executor import CallListener

DEFAULT_MAX_ROUNDS = 16
"""Replies of the model in one run: more than ordinary tasks need, few enough to stop a model that never answers."""

_EXECUTABLE_STOPS = ("tool_use", "complete", "stop_sequence")
"""Stop reasons after which calls are executed. After `max_tokens` the model had not finished its reply."""

Ask: TypeAlias = Callable[[tuple[Message, ...]], Awaitable[Reply]]
"""Requests the model's next reply to a conversation."""


class Round(msgspec.Struct, frozen=True):
    """One reply of the model, and the conversation including that reply and the results of its calls.

    `answer` is that of the whole run, null in all rounds but the last: the reply's text, or that of `final` results.
    """

    reply: Reply
    messages: tuple[Message, ...]
    answer: str | None = None


def check_max_rounds(max_rounds: int) -> None:
    """Raise `ConfigError` if no round is allowed."""
    if max_rounds < 1:
        raise ConfigError(f"max_rounds: expected at least 1, got {max_rounds}")


def check_mended(reply: Reply, remaining_defects: str, raw_text: str = "") -> None:
    """Raise `ModelOutputError` for a reply whose call stayed invalid after all retries, as `remaining_defects` say.

    `raw_text`: what the model wrote, where the reply's text differs from that.
    """
    if remaining_defects and not reply.tool_calls:
        raise ModelOutputError(
            f"the model wrote a call that cannot run, and retries did not help: {remaining_defects}",
            kind="invalid_call",
            raw=raw_text or reply.text,
        )


class AgentLoop:
    """The rounds of one run: send `messages` to the model, pass its reply to `run_tools`, until the loop is `finished`.

    `own_tools` are the names of the tools that run here (default: all). If a reply has valid calls of other tools, only
    its own calls are executed and the loop ends: the caller answers the rest. The loop also ends with the results of
    tools that say they are `final`. Calls of `final_tool`, which is meant to give such a result, may come in the last
    reply.
    """

    def __init__(
        self,
        tools: Executor,
        messages: Sequence[Message] = (),
        *,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
        own_tools: Collection[str] | None = None,
        final_tool: str = "",
    ) -> None:
        """Raises `ConfigError` for `max_rounds` below 1."""
        check_max_rounds(max_rounds)
        self.messages = tuple(messages)
        self.finished = False
        self.answer: str | None = None
        """The answer, once the loop is finished; null if the caller has calls to answer."""
        self._tools = tools
        self._max_rounds = max_rounds
        self._rounds_left = max_rounds
        self._own_tools = own_tools
        self._final_tool = final_tool

    async def run_tools(self, reply: Reply, listener: CallListener = lambda _: None) -> None:
        """Execute the calls of a reply; append the reply and the results to `messages`.

        Raises `ModelOutputError` (kind `max_rounds`) if the last allowed reply has calls; these are not executed.
        """
        calls = executable_calls(reply)
        other_calls = [call for call in calls if call.error is None and not self._is_own(call)]
        executed = [call for call in calls if self._is_own(call)] if other_calls else calls
        self.finished = bool(other_calls) or not calls
        self.answer = None if calls else reply.text
        self._rounds_left -= 1
        self._check_rounds(may_end=any(call.tool_call_name == self._final_tool for call in executed))
        final: set[str] = set()

        def watch(event: CallEvent) -> None:
            if isinstance(event, CallFinished) and event.final:
                final.add(event.message.tool_call_id)
            listener(event)

        results = await self._tools.execute(executed, watch)
        kept = [call for call in calls if call in executed or call in other_calls]
        self.messages += (assistant_message(reply, kept), *results)
        if final:
            self.finished = True
            self.answer = "\n".join(text_of(each.content) for each in results if each.tool_call_id in final)
        self._check_rounds()

    def _check_rounds(self, *, may_end: bool = False) -> None:
        """Raise `ModelOutputError` if the model would have to be asked once more than is allowed."""
        if not (self._rounds_left or self.finished or may_end):
            message = (
                f"the model did not answer: it called tools in every reply, and max_rounds allows {self._max_rounds}"
            )
            raise ModelOutputError(message, kind="max_rounds")

    def _is_own(self, call: ToolCallEnd) -> bool:
        return self._own_tools is None or call.tool_call_name in self._own_tools


async def rounds(
    ask: Ask,
    messages: Sequence[Message],
    tools: Executor,
    *,
    max_rounds: int = DEFAULT_MAX_ROUNDS,
    final_tool: str = "",
) -> AsyncIterator[Round]:
    """Let the model call `tools` until it answers; yield every round, the last one with the answer.

    Raises `ConfigError` and `ModelOutputError` as `AgentLoop` does.
    """
    loop = AgentLoop(tools, messages, max_rounds=max_rounds, final_tool=final_tool)
    while not loop.finished:
        reply = await ask(loop.messages)
        await loop.run_tools(reply)
        yield Round(reply, loop.messages, loop.answer if loop.finished else None)


def executable_calls(reply: Reply) -> tuple[ToolCallEnd, ...]:
    """Return the calls of a reply to execute: none if it was truncated."""
    return reply.tool_calls if reply.stop_reason in _EXECUTABLE_STOPS else ()


def assistant_message(reply: Reply, calls: Sequence[ToolCallEnd]) -> AssistantMessage:
    """Convert a reply to a message of the conversation."""
    made = []
    for call in calls:
        # Upstreams refuse a history with malformed arguments; the call's result shows the model what it wrote.
        arguments = "{}" if call.error is not None else call.tool_call_arguments_complete or "{}"
        made.append(ToolCall(call.tool_call_id, call.tool_call_name, arguments))
    return AssistantMessage(
        content=(TextPart(reply.text),) if reply.text else (),
        tool_calls=tuple(made),
        reasoning=reply.reasoning,
        signature=reply.signature,
    )
