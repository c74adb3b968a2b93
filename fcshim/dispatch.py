"""The attempts of one request: native tools or the prompt, with a constraint or without, and retries.

Rule: when an upstream refuses native tools or a constraint, the request is sent again without it, unless the client
has already received events; the refusal is remembered. The caller does the I/O.
"""

import logging
from typing import Protocol

from fcshim.config import ToolsPolicy
from fcshim.errors import FcshimError, UpstreamError
from fcshim.messages import Request, uses_tools
from fcshim.pipeline.backends import OFF, Backend, unconstrained
from fcshim.pipeline.exchange import Exchange
from fcshim.pipeline.retry import RetryingExchange
from fcshim.upstream.capabilities import ToolSupport, refuses_tools
from fcshim.upstream.constraint_support import ConstraintSupport, may_refuse_constraint

logger = logging.getLogger("fcshim.dispatch")
retry_logger = logging.getLogger("fcshim.retry")

AnyExchange = Exchange | RetryingExchange


class MakeExchange(Protocol):
    """Makes an exchange of the request."""

    def __call__(self, *, native: bool, backend: Backend) -> AnyExchange:
        """Make it for native tools (`native`), or for the prompt, with a constraint that `backend` accepts."""
        ...


class RequestAttempts:
    """Decide what to send for one request, attempt by attempt.

    The caller sends the exchange of `first`. If the upstream fails, it asks `fallback` for another exchange; if the
    upstream answers, it calls `confirm`, then `retry`, and sends the same exchange again while that returns true.
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
        self._suspected_key = ""  # the constraint that the current exchange leaves out on suspicion
        self._refusal_stated = True  # whether the upstream answered with an error, rather than drop the connection

    async def first(self) -> AnyExchange:
        """Return the first exchange to send. Raises `RequestError`."""
        self._native = await is_native(self._request, self._tools, self._tool_support)
        return await self._make_first()

    async def fallback(
        self, exchange: AnyExchange, error: FcshimError, *, response_started: bool = False
    ) -> AnyExchange | None:
        """Return the exchange to send after `exchange` failed with `error`; None if no other could do better.

        With `response_started` the client has received events, which nothing may contradict: only a retry, whose
        own events are still held back, can then be sent again.
        """
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
        """Record that the upstream answered the exchange that was sent last, and so what it accepts and refuses."""
        self._constraint_support.record_success(exchange.constraint_key)
        if self._suspected_key:
            self._constraint_support.record_refusal(self._suspected_key, stated=self._refusal_stated)
            self._suspected_key = ""

    async def retry(self, exchange: AnyExchange) -> bool:
        """Prepare the next attempt of `exchange` and return true; false if none is wanted.

        Also false if the attempt cannot be made; `exchange.wants_retry` stays true then, and its `close` ends it.
        """
        if not (isinstance(exchange, RetryingExchange) and exchange.wants_retry):
            return False
        backend = await self._constraint_support.backend(self._request, for_retry=True)
        if not exchange.prepare_retry(backend):
            return False
        if self._constraint_support.is_refused(exchange.constraint_key):
            exchange.prepare_retry(unconstrained(backend))
        constrained = ", with a constraint" if exchange.constraint_key else ""
        retry_logger.info("%s: asked once more%s: %s", self._request.model, constrained, exchange.retry_reason)
        return True

    async def _make_first(self) -> AnyExchange:
        native = self._native and uses_tools(self._request)
        backend = OFF if native else await self._constraint_support.backend(self._request)
        exchange = self._make(native=self._native, backend=backend)
        if self._constraint_support.is_refused(exchange.constraint_key):
            # Without a grammar, a prefill may start the required call instead; the upstream may have refused that, too.
            exchange = self._make(native=self._native, backend=unconstrained(backend))
        if self._constraint_support.is_refused(exchange.constraint_key):
            exchange = self._make(native=self._native, backend=OFF)
        return exchange

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
    """Return whether the request uses the upstream's native tools."""
    if tools == "auto" and uses_tools(request):
        return await tool_support.is_native(request.model)
    return tools == "native"
