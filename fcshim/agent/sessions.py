"""Tools for sessions: separate conversations that an agent starts, sends messages to and reads.

Rule: a session answers one message at a time, in order. The docstrings of the tools are their descriptions for models.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import msgspec

from fcshim.agent.run import Agent
from fcshim.errors import FcshimError, ToolError
from fcshim.messages import AssistantMessage, Message, TextPart, ToolMessage, UserMessage, text_of
from fcshim.tools import FunctionTool, ToolResult, Traits

MakeAgent: TypeAlias = Callable[[str | None], Awaitable[Agent]]
"""Makes the agent of a session from the agent id that the model chose (None: the default agent)."""

MAX_SESSIONS = 50
"""Sessions that one agent may start; all are kept until the end."""


class _Session(msgspec.Struct):
    id: str
    title: str
    agent: Agent
    lock: asyncio.Lock
    messages: tuple[Message, ...] = ()
    running: asyncio.Task[str] | None = None


class Sessions:
    """The sessions that one agent has started. Close it with the conversation.

    `describe` returns the description of the tool that starts a session, made from its own.
    """

    def __init__(self, make_agent: MakeAgent, describe: Callable[[str], str] = str) -> None:
        self._make_agent = make_agent
        self._describe = describe
        self._sessions: dict[str, _Session] = {}
        self._numbers = itertools.count(1)

    def tools(self) -> list[FunctionTool]:
        """Return the tools."""
        safe = Traits(sensitivity="safe", reads_only=True, source="builtin:sessions")
        needs_permission = Traits(source="builtin:sessions", timeout=3_600.0)
        spawn = FunctionTool(self.spawn, name="SessionsSpawn", traits=needs_permission)
        described = self._describe(spawn.definition.description)
        spawn.definition = msgspec.structs.replace(spawn.definition, description=described)
        return [
            spawn,
            FunctionTool(self.list_sessions, name="SessionsList", traits=safe),
            FunctionTool(self.send, name="SessionsSend", traits=needs_permission),
            FunctionTool(self.history, name="SessionsHistory", traits=safe),
            FunctionTool(yield_turn, name="SessionsYield", traits=safe),
        ]

    async def spawn(
        self,
        prompt: Annotated[str, "the first message"],
        agentId: Annotated[str | None, "a kind of agent, if the user described some"] = None,  # noqa: N803 - the parameter names that models see
        title: str | None = None,
    ) -> str:
        """Start a session, a separate conversation, without waiting for it; SessionsHistory has its answers."""
        if len(self._sessions) >= MAX_SESSIONS:
            raise ToolError(f"There are {MAX_SESSIONS} sessions already.")
        agent = await self._make_agent(agentId)
        session = _Session(f"session-{next(self._numbers)}", title or prompt[:60], agent, asyncio.Lock())
        self._sessions[session.id] = session
        await session.lock.acquire()  # before the model can send to it: the first message comes first
        session.running = asyncio.create_task(_answer_first(session, prompt), name=session.id)
        return f"Started {session.id}."

    def list_sessions(self, limit: int = 20, offset: int = 0) -> str:
        """List the sessions."""
        listed = list(self._sessions.values())[max(offset, 0) :][: max(limit, 0)]
        lines = [f"{each.id}  {'answering' if each.lock.locked() else 'waiting'}  {each.title}" for each in listed]
        return "\n".join(lines) or "There are none."

    async def send(self, sessionId: str, message: str) -> str:  # noqa: N803
        """Send a message to a session and wait for its answer."""
        session = self._session(sessionId)
        async with session.lock:
            return await _answer(session, message)

    def history(self, sessionId: str, limit: int = 20) -> str:  # noqa: N803
        """Read what was said in a session."""
        session = self._session(sessionId)
        lines = [line for message in session.messages for line in transcript_lines(message)]
        state = "\n(it is answering)" if session.lock.locked() else ""
        return ("\n".join(lines[-max(limit, 1) :]) or "(nothing yet)") + state

    async def aclose(self) -> None:
        """Stop all sessions."""
        tasks = [each.running for each in self._sessions.values() if each.running is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _session(self, name: str) -> _Session:
        if name not in self._sessions:
            raise ToolError(f"There is no session {name}. There are: {', '.join(self._sessions) or 'none'}.")
        return self._sessions[name]


def yield_turn(message: Annotated[str, "what to answer"]) -> ToolResult:
    """End your turn and answer this."""
    return ToolResult((TextPart(message),), final=True)


async def _answer_first(session: _Session, text: str) -> str:
    try:
        return await _answer(session, text)
    finally:
        session.lock.release()


async def _answer(session: _Session, text: str) -> str:
    session.messages += (UserMessage((TextPart(text),)),)
    try:
        ended = await session.agent.answer(session.messages)
    except FcshimError as error:
        answer = f"(failed: {error.message})"
        session.messages += (AssistantMessage((TextPart(answer),)),)
        return answer
    session.messages = ended.messages
    return ended.answer or ""


def transcript_lines(message: Message) -> list[str]:
    """Return a message as lines for a model to read; long arguments and results are shortened."""
    match message:
        case UserMessage():
            return [f"user: {text_of(message.content)}"]
        case AssistantMessage():
            calls = [f"call: {call.name} {call.arguments[:200]}" for call in message.tool_calls]
            text = text_of(message.content)
            return ([f"assistant: {text}"] if text else []) + calls
        case ToolMessage():
            return [f"result: {text_of(message.content)[:500]}"]
        case _:
            return []
