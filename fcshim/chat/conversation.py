"""One conversation: the model, its tools, the messages.

Rule: an interrupted turn leaves a conversation that can be continued: complete rounds stay, so does received text; a
question that got no reply at all is removed.
"""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing

from fcshim.agent import Agent, AgentEvent, RoundEnded
from fcshim.chat.session import ChatSession
from fcshim.client import Client, EventStream
from fcshim.events import Text
from fcshim.messages import AssistantMessage, Message, TextPart, Tool, UserMessage
from fcshim.tools import Executor, PermissionRule, Permissions, Registry


class ChatConversation:
    """A conversation; `registry` and the session's model may change between turns."""

    def __init__(
        self, client: Client, registry: Registry, permissions: Permissions, session: ChatSession, *, max_rounds: int
    ) -> None:
        self.registry = registry
        self.permissions = permissions
        self.session = session
        self.client = client
        self._agent = Agent(self._stream_reply, Executor(registry, permissions=permissions), max_rounds=max_rounds)

    async def send(
        self, given: str | Sequence[Message], allowed: Iterable[PermissionRule] | None = None
    ) -> AsyncGenerator[AgentEvent, None]:
        """Send a message of the user's, or several; yield all events until the model has answered.

        With `allowed`, only calls that these rules allow can run in this turn.

        Raises `UpstreamError`, and `ModelOutputError` if the model does not stop calling tools.
        """
        before = self.session.messages
        asked = (UserMessage((TextPart(given),)),) if isinstance(given, str) else tuple(given)
        with_question = self.session.messages = (*before, *asked)
        if allowed is not None:
            self.permissions.restrict(allowed)
        unfinished: list[str] = []
        try:
            async with aclosing(self._agent.run(with_question)) as events:
                async for event in events:
                    if isinstance(event, Text):
                        unfinished.append(event.text)
                    elif isinstance(event, RoundEnded):
                        self.session.messages = event.messages
                        unfinished.clear()
                    yield event
        finally:
            self.permissions.lift_restrictions()
            if unfinished:
                self.session.messages += (AssistantMessage((TextPart("".join(unfinished)),)),)
            elif self.session.messages is with_question:
                self.session.messages = before

    def _stream_reply(self, messages: tuple[Message, ...], tools: tuple[Tool, ...]) -> EventStream:
        return self.client.stream(messages, tools, model=self.session.model)
