"""Executes the tool calls of one reply.

Rule: every call gets a result, in the order of the calls; an invalid call gets an error result and is not executed. A
call goes: look up, refuse what may not run whatever its arguments, validate, decide or ask about the arguments, run,
log.
"""

import asyncio
import copy
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from fcshim.config.credentials import CredentialMask
from fcshim.errors import ConfigError, ToolError
from fcshim.events import JSON, ToolCallEnd
from fcshim.messages import Content, Part, TextPart, Tool, ToolMessage
from fcshim.tools.arguments import read_arguments
from fcshim.tools.base import AnyTool, CallContext, ToolProgress, offered_definition
from fcshim.tools.permission import Permissions
from fcshim.tools.registry import Registry
from fcshim.tools.result import ToolResult, failed

logger = logging.getLogger(__name__)

DEFAULT_MAX_PARALLEL = 8
"""Calls that run at once: a model that requests fifty calls must not open fifty files."""
DEFAULT_TIMEOUT = 120.0
"""Seconds for one call, as other hosts of tools allow."""
DEFAULT_MAX_OUTPUT = 50 * 1024
"""Characters of one result: about 12,000 tokens, a large part of a small model's context."""

_LOGGED = 4_000
"""Characters of the arguments, and of a result, in the log."""
_KEPT_END = 1_000
"""Characters from the end of a result that is too long: many tools say there how to read on."""
_HOW_TO_ALLOW = (
    "The program can let it run: Executor(tools, permissions=Permissions('allow')), or after a question: "
    'Permissions(ask=...). The settings of an MCP server can name it in "allow".'
)
_FAILURE_HINT = "[Analyze the error above and try a different approach.]"


class CallStarted(msgspec.Struct, frozen=True, tag="call_started", tag_field="type"):
    """Processing of a call begins; the call may still be refused."""

    call: ToolCallEnd


class CallProgressed(msgspec.Struct, frozen=True, tag="call_progressed", tag_field="type"):
    """A running tool reports progress."""

    tool_call_id: str
    progress: ToolProgress


class CallFinished(msgspec.Struct, frozen=True, tag="call_finished", tag_field="type"):
    """A call has its result; a `final` one ends the turn without another request to the model."""

    message: ToolMessage
    final: bool


CallEvent: TypeAlias = CallStarted | CallProgressed | CallFinished
CallListener: TypeAlias = Callable[[CallEvent], None]


def _ignore(_: CallEvent) -> None:
    """Discard the event."""


class Executor:
    """Runs the calls of a set of tools, with permissions, limits and timeouts.

    Plain functions are wrapped; a `Registry` is used directly, so that later changes to it count. `max_output`
    limits the characters of each result (None: 51,200, or the tool's own limit), `timeout` the seconds of a call (None
    for no limit), of which a tool's own limit takes precedence.
    Without `permissions` the program's own functions run, and of other tools (servers', built-in and custom ones) those
    that are known to be safe or that the operator allowed; the rest is refused. Raises `ConfigError` for a function
    that cannot be a tool, for two tools with one name, and for `max_parallel` below 1.
    """

    def __init__(
        self,
        tools: Registry | Iterable[AnyTool | Callable[..., JSON]],
        *,
        max_parallel: int = DEFAULT_MAX_PARALLEL,
        timeout: float | None = DEFAULT_TIMEOUT,
        max_output: int | None = None,
        permissions: Permissions | None = None,
    ) -> None:
        if max_parallel < 1:
            raise ConfigError("max_parallel must be at least 1")
        self.registry = tools if isinstance(tools, Registry) else Registry(tools)
        self._slots = asyncio.Semaphore(max_parallel)
        self._exclusive = asyncio.Lock()
        self._timeout = timeout
        self._max_output = max_output
        self._permissions = permissions

    @property
    def definitions(self) -> tuple[Tool, ...]:
        """The definitions that the model gets, in the order of the tools; those that may not run now are left out."""
        permissions = self._permissions
        return tuple(
            offered_definition(tool) for tool in self.registry if permissions is None or permissions.offers(tool)
        )

    def extended(self, tool: AnyTool) -> "Executor":
        """Return an executor with one more tool, and the same limits, which both share."""
        other = copy.copy(self)
        other.registry = Registry([*self.registry, tool])
        return other

    async def execute(self, calls: Sequence[ToolCallEnd], listener: CallListener = _ignore) -> list[ToolMessage]:
        """Run the calls, concurrently where their tools allow it; return their results in the order of the calls."""
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._execute(call, listener)) for call in calls]
        return [task.result() for task in running]

    async def _execute(self, call: ToolCallEnd, listener: CallListener) -> ToolMessage:
        listener(CallStarted(call))
        result = await self.call(call, listener)
        message = ToolMessage(call.tool_call_id, _message_content(result), call.tool_call_name, result.is_error)
        listener(CallFinished(message, result.final))
        return message

    async def call(self, call: ToolCallEnd, listener: CallListener = _ignore) -> ToolResult:
        """Run one call; return its result, truncated to `max_output`. A failure is a result with `is_error`."""
        clock = asyncio.get_running_loop().time
        started = clock()
        result = await self._check_and_run(call, listener)
        _log(call, result, clock() - started)
        tool = self.registry.get(call.tool_call_name)
        own = None if tool is None else tool.traits.max_output
        limit = min(filter(None, (self._max_output, own)), default=DEFAULT_MAX_OUTPUT)
        return msgspec.structs.replace(result, content=_truncate(result.content, limit, keep_end=result.is_error))

    async def _check_and_run(self, call: ToolCallEnd, listener: CallListener) -> ToolResult:
        if (problem := call.error) is not None:
            return failed(
                f"The call was not executed ({problem.kind}): {problem.message}\nIt was written so: {problem.raw}"
            )
        tool = self.registry.get(call.tool_call_name)
        if tool is None:
            return failed(self.registry.unknown_tool_message(call.tool_call_name))
        refusal = self._forbidden_reason(tool)
        if refusal is not None:
            return failed(f"{call.tool_call_name} was not executed. {refusal}")
        try:
            arguments = read_arguments(tool.definition, call.tool_call_arguments_complete)
        except ToolError as error:
            return failed(error.message)
        if self._permissions is not None:
            # After the arguments are valid: a rule or the user judges them, and no user is asked in vain.
            refusal = await self._permissions.refusal_reason(tool, arguments)
        if refusal is not None:
            return failed(f"{call.tool_call_name} was not executed. {refusal}")
        context = CallContext(call.tool_call_id, lambda done: listener(CallProgressed(call.tool_call_id, done)))
        if self._permissions is not None:
            context = msgspec.structs.replace(context, may_open=self._permissions.may_open(tool))
        return await self._run(tool, arguments, context)

    def _forbidden_reason(self, tool: AnyTool) -> str | None:
        """Return why no call of a tool may run, whatever its arguments; None if one may."""
        traits = tool.traits
        if self._permissions is not None:
            return self._permissions.forbidden_reason(tool)
        if not traits.source or traits.sensitivity == "safe" or traits.allowed:
            return None
        logger.warning("%s was refused: %s", tool.definition.name, _HOW_TO_ALLOW)
        return f"It is not known to be safe. {_HOW_TO_ALLOW}"

    async def _run(self, tool: AnyTool, arguments: Mapping[str, JSON], context: CallContext) -> ToolResult:
        if tool.traits.parallel:
            return await self._in_slot(tool, arguments, context)
        # The lock is taken before a slot: calls that wait for it occupy no slots.
        async with self._exclusive:
            return await self._in_slot(tool, arguments, context)

    async def _in_slot(self, tool: AnyTool, arguments: Mapping[str, JSON], context: CallContext) -> ToolResult:
        seconds = self._timeout if tool.traits.timeout is None else tool.traits.timeout
        async with self._slots:
            # The timeout starts here: waiting for approval or for a slot does not count.
            try:
                async with asyncio.timeout(seconds):
                    return await tool.call(arguments, context)
            except TimeoutError:
                return failed(f"{tool.definition.name} gave no result within {seconds:g} seconds.")


def _log(call: ToolCallEnd, result: ToolResult, seconds: float) -> None:
    """Log a call; at DEBUG with its arguments and result, without credentials."""
    outcome = "failed" if result.is_error else "done"
    logger.info("%s %s: %s in %.3f s", call.tool_call_name, call.tool_call_id, outcome, seconds)
    if logger.isEnabledFor(logging.DEBUG):
        mask = CredentialMask()
        for what, text in (("arguments", call.tool_call_arguments_complete), ("result", result.flat_text)):
            shown = mask.text(text)
            logger.debug("%s %s: %s: %s", call.tool_call_name, call.tool_call_id, what, shown[:_LOGGED])


def _truncate(content: Content, limit: int, *, keep_end: bool) -> Content:
    """Keep `limit` characters of text over all parts, and every media part.

    The end of a text is kept too, which says how to read on; most of a failure is kept from its end: it says why.
    """
    kept: list[Part] = []
    for part in content:
        if not isinstance(part, TextPart):
            kept.append(part)
        elif len(part.text) <= limit:
            kept.append(part)
            limit -= len(part.text)
        else:
            end = limit * 3 // 4 if keep_end else min(limit // 4, _KEPT_END)
            note = f"\n(truncated: {len(part.text) - limit} characters are left out here)\n"
            kept.append(TextPart(f"{part.text[: limit - end]}{note}{part.text[len(part.text) - end :]}"))
            limit = 0
    return tuple(kept)


def _message_content(result: ToolResult) -> Content:
    """Return the content that the model gets; a failure ends with a hint."""
    if not result.is_error:
        return result.content
    *others, last = result.content or (TextPart(""),)
    if isinstance(last, TextPart):
        return (*others, TextPart(f"{last.text}\n{_FAILURE_HINT}" if last.text else _FAILURE_HINT))
    return (*others, last, TextPart(_FAILURE_HINT))
