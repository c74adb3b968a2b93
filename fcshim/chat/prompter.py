"""Routes approval prompts and servers' requests to the user, or denies them.

Rule: without a user (in scripts, or before the terminal starts) no call runs that needs a question, and servers'
requests are refused.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from fcshim.chat.call_markup import without_markup
from fcshim.chat.session import ChatSession
from fcshim.client import Client
from fcshim.errors import ToolError
from fcshim.events import JSON
from fcshim.messages import Message, TextPart, UserMessage, text_of
from fcshim.reply import Reply
from fcshim.tools import PermissionDecision, PermissionRequest
from fcshim.tools.summary import ANSWER_TOKENS

if TYPE_CHECKING:
    from fcshim.mcp.server_requests import ElicitationForm


class InteractiveUser(Protocol):
    """A user at a terminal."""

    async def ask(self, request: PermissionRequest) -> PermissionDecision:
        """Decide whether a call may run."""

    async def confirm(self, action: str) -> bool:
        """Decide about an action other than a call."""

    async def fill_form(self, form: "ElicitationForm") -> Mapping[str, JSON] | None:
        """Fill in a server's form; None to decline."""


class Prompter:
    """Routes approval prompts to the user, or denies them.

    `background_model` reads pages for tools; empty for the session's model.
    """

    def __init__(self, client: Client, session: ChatSession, background_model: str = "") -> None:
        self.user: InteractiveUser | None = None
        self._client = client
        self._session = session
        self._background_model = background_model

    async def ask(self, request: PermissionRequest) -> PermissionDecision:
        """Decide whether a call may run."""
        if self.user is not None:
            return await self.user.ask(request)
        return PermissionDecision(allowed=False, reason="There is no user to ask; --allow NAME lets it run.")

    async def sample(self, messages: tuple[Message, ...], max_tokens: int, server: str) -> Reply:
        """Ask the model on behalf of a server, if the user agrees. Raises `ToolError` if not."""
        question = "\n".join(text_of(each.content) for each in messages)  # a system message, too: nothing is hidden
        if self.user is None:
            raise ToolError(f"there is no user here to ask whether the server {server} may ask the model")
        if not await self.user.confirm(f"the server {server} asks the model: {question}"):
            raise ToolError(f"the user does not let the server {server} ask the model")
        return await self._client.complete(messages, max_tokens=max_tokens, model=self._session.model)

    @property
    def tool_model(self) -> str:
        """The model for background work."""
        return self._background_model or self._session.model

    async def ask_model(self, text: str) -> str:
        """Have the model for background work answer a text, in a separate conversation without tools."""
        model = self.tool_model
        question = (UserMessage((TextPart(text),)),)
        return without_markup((await self._client.complete(question, model=model, max_tokens=ANSWER_TOKENS)).text)

    async def elicit(self, form: "ElicitationForm") -> Mapping[str, JSON] | None:
        """Ask the user on behalf of a server."""
        return None if self.user is None else await self.user.fill_form(form)
