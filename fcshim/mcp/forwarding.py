"""Forwards requests of the servers behind a gateway (to the model, to the user) to the gateway's client.

Rule: a server's request reaches a client only while a call of that one client is running, and only if the client
declares the capability; the client decides whether its model or its user answers.
"""

import contextlib
import warnings
from collections.abc import Awaitable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

from mcp import MCPError
from mcp.client.session import ClientRequestContext
from mcp.server.session import ServerSession
from mcp.types import (
    INVALID_REQUEST,
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitationCapability,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    RequestId,
    SamplingCapability,
    SamplingMessage,
    TextContent,
)

from fcshim.codecs.upstream_errors import error_kind
from fcshim.errors import UpstreamError
from fcshim.tools.summary import ANSWER_TOKENS, AskModel

_Result = TypeVar("_Result")


class ClientForwarding:
    """The calls that run for a gateway's clients, and the SDK's callbacks for the servers behind it."""

    def __init__(self) -> None:
        self._calls: list[tuple[ServerSession, RequestId | None, bool]] = []
        self._own_call: ContextVar[tuple[ServerSession, RequestId | None] | None] = ContextVar("call", default=None)

    @contextlib.contextmanager
    def during_call(self, session: ServerSession, request_id: RequestId | None, *, stdio: bool) -> Iterator[None]:
        """Record that a call of a client is running; `stdio`: its client is the only one."""
        call = (session, request_id, stdio)
        self._calls.append(call)
        token = self._own_call.set((session, request_id))
        try:
            yield
        finally:
            self._own_call.reset(token)
            self._calls.remove(call)

    def find_model(self) -> AskModel | None:
        """Return the model of the client whose call runs in this task, for fcshim's own tools; None if it lends none.

        It raises `UpstreamError` if the client or its model fails.
        """
        call = self._own_call.get()
        if call is None or not _lends(call[0], ClientCapabilities(sampling=SamplingCapability())):
            return None
        return partial(_ask_model, *call)

    async def sample(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - the SDK passes it by this name
        params: CreateMessageRequestParams,
    ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
        """Have the client's model answer."""
        found = self._caller(ClientCapabilities(sampling=SamplingCapability()))
        if found is None:
            return _refusal("model")
        session, request_id = found
        with _without_deprecations():
            request = session.create_message(
                params.messages,
                max_tokens=params.max_tokens,
                system_prompt=params.system_prompt,
                temperature=params.temperature,
                stop_sequences=params.stop_sequences,
                related_request_id=request_id,
            )
        return await _answer(request)

    async def elicit(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - the SDK passes it by this name
        params: ElicitRequestParams,
    ) -> ElicitResult | ErrorData:
        """Have the client's user fill in a form."""
        found = self._caller(ClientCapabilities(elicitation=ElicitationCapability()))
        if found is None or not isinstance(params, ElicitRequestFormParams):
            return _refusal("user")
        session, request_id = found
        with _without_deprecations():
            request = session.elicit_form(params.message, params.requested_schema, related_request_id=request_id)
        return await _answer(request)

    def _caller(self, capability: ClientCapabilities) -> tuple[ServerSession, RequestId | None] | None:
        """Return the client whose call must have caused a server's request; None if that is not certain."""
        if not self._calls or not (len(self._calls) == 1 or all(stdio for _, _, stdio in self._calls)):
            return None
        session, request_id, _ = self._calls[-1]
        return (session, request_id) if _lends(session, capability) else None


def _lends(session: ServerSession, capability: ClientCapabilities) -> bool:
    return session.can_send_request and session.check_client_capability(capability)


async def _ask_model(session: ServerSession, request_id: RequestId | None, text: str) -> str:
    question = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    with _without_deprecations():
        request = session.create_message([question], max_tokens=ANSWER_TOKENS, related_request_id=request_id)
    try:
        answer = await request
    except MCPError as error:
        message = f"the client's model failed: {error.message}"
        raise UpstreamError(message, kind=error_kind(error.message)) from error
    return answer.content.text if isinstance(answer.content, TextContent) else ""


def _refusal(requested: str) -> ErrorData:
    return ErrorData(code=INVALID_REQUEST, message=f"the client of fcshim mcp does not let servers ask its {requested}")


async def _answer(request: Awaitable[_Result]) -> _Result | ErrorData:
    try:
        return await request
    except MCPError as error:
        return error.error


@contextlib.contextmanager
def _without_deprecations() -> Iterator[None]:
    """The SDK calls these requests deprecated; clients of the protocols before 2026 answer no others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
