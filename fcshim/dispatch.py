"""How one request is put to an upstream: by its own tools or by the prompt, with a constraint or without, once more.

Rule: what an upstream refuses is left out and asked again at once, as long as its client has seen nothing; what it
refused is remembered. Nothing is read or written here.
Neighbours: `inquiry` and `enforcement` know the upstream; `client` and `server` do the I/O of what is given to them.
"""

import logging
from typing import Protocol

from fcshim.backends import OFF, Backend, unconstrained
from fcshim.capabilities import ToolSupport, refuses_tools
from fcshim.config import ToolsPolicy
from fcshim.constraint_support import ConstraintSupport, may_refuse_constraint
from fcshim.errors import FcshimError, UpstreamError
from fcshim.exchange import Exchange
from fcshim.messages import Request, uses_tools
from fcshim.retry import RetryingExchange

logger = logging.getLogger("fcshim.dispatch")
retry_logger = logging.getLogger("fcshim.retry")

AnyExchange = Exchange | RetryingExchange


class MakeExchange(Protocol):
    """Makes the exchange of a request."""

    def __call__(self, *, native: bool, backend: Backend) -> AnyExchange:
        """Make it for the upstream's own tools, or for the prompt and what that kind of server takes."""
        ...


class RequestAttempts:
    """One request. `begin`, then for as long as there is something to send: send it, and say what came of it.

    `request` names the model as the upstream does.
    """

    def __init__(
        self,
        request: Request,
        make: MakeExchange,
        *,
        tools: ToolsPolicy,
        tool_support: ToolSupport,
        constraint_support: ConstraintSupport,
    ) -> None:
        self._request = request
        self._make = make
        self._tools = tools
        self._tool_support = tool_support
        self._constraint_support = constraint_support
        self._native = False
        self._suspected_key = ""  # a constraint without which the request is asked again
        self._refusal_stated = True  # whether the upstream said that it refuses it

    async def first(self) -> AnyExchange:
        """Give what to send first. Raises `RequestError`."""
        self._native = await is_native(self._request, self._tools, self._tool_support)
        return await self._make_first()

    async def fallback(
        self, exchange: AnyExchange, error: FcshimError, *, response_started: bool = False
    ) -> AnyExchange | None:
        """Give what to send instead of what was refused; None where there is nothing, or it is too `late` for that."""
        if isinstance(exchange, RetryingExchange) and exchange.is_retry:
            return await self._retry_unconstrained(exchange, error)
        if response_started:
            return None
        if self._native and self._tools == "auto" and self._request.tools and refuses_tools(error):
            self._tool_support.native_failure_handler(self._request.model)(error.message)
            self._native = False
            return await self._make_first()
        if not self._suspect_constraint(exchange, error):
            return None
        return self._make(native=self._native, backend=OFF)

    def confirm(self, exchange: AnyExchange) -> None:
        """Take note that the upstream has answered what was sent last."""
        self._constraint_support.record_success(exchange.constraint_key)
        if self._suspected_key:
            self._constraint_support.record_refusal(self._suspected_key, stated=self._refusal_stated)
            self._suspected_key = ""

    async def retry(self, exchange: AnyExchange) -> bool:
        """Make the next try ready to be sent, where one is wanted; it stays wanted where it cannot be made."""
        if not (isinstance(exchange, RetryingExchange) and exchange.wants_retry):
            return False
        server = await self._constraint_support.backend(self._request, for_retry=True)
        if not exchange.prepare_retry(server):
            return False
        if self._constraint_support.is_refused(exchange.constraint_key):
            exchange.prepare_retry(unconstrained(server))
        constrained = ", held to a grammar" if exchange.constraint_key else ""
        retry_logger.info("%s: asked once more%s: %s", self._request.model, constrained, exchange.retry_reason)
        return True

    async def _make_first(self) -> AnyExchange:
        native = self._native and uses_tools(self._request)
        server = OFF if native else await self._constraint_support.backend(self._request)
        asked = self._make(native=self._native, backend=server)
        if self._constraint_support.is_refused(asked.constraint_key):
            # The model's turn may be begun for it instead; that may be what is refused, too.
            asked = self._make(native=self._native, backend=unconstrained(server))
        if self._constraint_support.is_refused(asked.constraint_key):
            asked = self._make(native=self._native, backend=OFF)
        return asked

    async def _retry_unconstrained(self, exchange: RetryingExchange, error: FcshimError) -> RetryingExchange | None:
        if exchange.sent_call or not self._suspect_constraint(exchange, error):
            return None
        exchange.prepare_retry(unconstrained(await self._constraint_support.backend(self._request, for_retry=True)))
        return exchange

    def _suspect_constraint(self, exchange: AnyExchange, error: FcshimError) -> bool:
        if not exchange.constraint_key or not may_refuse_constraint(error):
            return False
        self._suspected_key = exchange.constraint_key
        self._refusal_stated = not (isinstance(error, UpstreamError) and error.lost)
        logger.warning("%s: the upstream may refuse the constraint: %s", self._request.model, error.message)
        return True


async def is_native(request: Request, tools: ToolsPolicy, tool_support: ToolSupport) -> bool:
    """Tell whether the request goes by the upstream's own tools."""
    if tools == "auto" and uses_tools(request):
        return await tool_support.is_native(request.model)
    return tools == "native"
