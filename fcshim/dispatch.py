"""The driver of one request: it makes the attempts, sends them, and passes the events of the reply on.

Rule: when an upstream refuses native tools or a constraint, the request is sent again without it, unless the client
has already received events; the refusal is remembered. The same settings give the same attempts in the client and in
the proxy. Long work runs beside the event loop, so that streams of other requests go on: one piece of work at a time.
The interpreter's lock changes hands every few milliseconds, so that the loop waits for one thread at most; the work
must not hold the lock for long in one call of a C function.
"""

import functools
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from fcshim.config import ModelConfig
from fcshim.constrain.constraint import constrains_document
from fcshim.errors import FcshimError, UpstreamError
from fcshim.messages import Request, uses_tools
from fcshim.pipeline.backends import OFF, Backend, unconstrained
from fcshim.pipeline.exchange import AnyExchange, Batch, Exchange
from fcshim.pipeline.native import prepare_native
from fcshim.pipeline.native_check import CheckedNative
from fcshim.pipeline.retry import shim_exchange
from fcshim.pipeline.shim import ParserOptions, Shim, prepare_shim
from fcshim.prompt.compose import PromptBudget
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.prompt.profiles import chosen_profile
from fcshim.upstream import UpstreamReply
from fcshim.upstream.capabilities import Capabilities, may_refuse_constraint, refuses_tools

Result = TypeVar("Result")

MIN_SIZE = 16_384
"""Bytes of a request whose work leaves the loop: decoding and writing the prompt take some 3 ms for that many."""

_limiter: RunVar[CapacityLimiter] = RunVar("fcshim_off_loop")


async def run_off_loop(size: int, work: Callable[[], Result]) -> Result:
    """Return what `work` returns, or raises; it runs in a thread if the request has at least `MIN_SIZE` bytes."""
    if size < MIN_SIZE:
        return work()
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = CapacityLimiter(1)
        _limiter.set(limiter)
    return await to_thread.run_sync(work, limiter=limiter)


logger = logging.getLogger("fcshim.dispatch")
retry_logger = logging.getLogger("fcshim.retry")


class ReplySink(Protocol):
    """Takes the events of one reply."""

    @property
    def started(self) -> bool:
        """Whether the client has a part of the reply, which no other attempt may contradict."""
        ...

    def restart(self) -> None:
        """Discard what was fed: another attempt starts the reply anew."""
        ...

    def feed(self, batch: Batch) -> bool:
        """Take the events of one read; return whether more may come now. The event loop calls it, so it must not block.

        Raises `UpstreamError` if the reply is unusable.
        """
        ...

    def close(self, batch: Batch) -> None:
        """Take the last events of the reply. Raises `UpstreamError` as `feed` does."""
        ...


@dataclass(frozen=True, slots=True)
class ExchangeFactory:
    """Makes the exchanges of one request, with the transform that the model's settings ask for.

    `request` names the model as the upstream does. `translated`: the request came in another API than the upstream's,
    so the shim adapts it to the model even without tools. `buffered`: the client gets the reply in one piece at its
    end. `new_id` makes the ids of calls.
    """

    request: Request
    model: ModelConfig
    capabilities: Capabilities
    new_id: Callable[[], str] | None
    buffered: bool
    translated: bool = False
    size: int = 0
    """Bytes of the client's request, if other requests must not wait while an exchange is made of a large one."""

    def make(self, *, native: bool, backend: Backend) -> AnyExchange:
        """Make it for native tools (`native`), or for the prompt, with a constraint that `backend` accepts.

        Raises `RequestError`.
        """
        exchange = self._make(native=native, backend=backend)
        exchange.prepare()
        return exchange

    def _make(self, *, native: bool, backend: Backend) -> AnyExchange:
        request, upstream = self.request, self.capabilities.upstream.kind.codec
        if native and uses_tools(request):
            return self._native_exchange()
        if not (self.translated or uses_tools(request) or constrains_document(backend.form, request)):
            return Exchange(request, upstream=upstream)
        shim = make_shim(request, self.model, self.new_id, backend)
        if shim.notes:
            logger.info("%s: %s", request.model, "; ".join(shim.notes))
        return shim_exchange(shim, upstream=upstream, max_retries=self.model.max_retries, buffered=self.buffered)

    def _native_exchange(self) -> Exchange:
        request, kind = self.request, self.capabilities.upstream.kind
        media = chosen_profile(self.model.profile, request.model).media
        native = prepare_native(request, name_rules=kind.name_rules, media=media)
        if self.model.tools != "auto" or not request.tools:
            return Exchange(request, upstream=kind.codec, transform=native)
        checked = CheckedNative(native, self.capabilities.native_failure_handler(request.model))
        return Exchange(request, upstream=kind.codec, transform=checked)


def make_shim(
    request: Request, model: ModelConfig, new_id: Callable[[], str] | None = None, backend: Backend = OFF
) -> Shim:
    """Make the shim of a request from the model's settings. Raises `RequestError`."""
    return prepare_shim(
        request,
        dialect=chosen_dialect(model.dialect, request.model),
        profile=chosen_profile(model.profile, request.model),
        tools_style=model.tools_style,
        budget=PromptBudget(model.max_tools, model.prompt_budget, model.max_result),
        backend=backend,
        options=ParserOptions(
            rescue=model.rescue,
            reasoning=model.reasoning,
            in_reasoning=model.in_reasoning,
            arguments=model.arguments,
            new_id=new_id,
        ),
    )


class RequestAttempts:
    """The attempts of one request: native tools or the prompt, with a constraint or without, and retries.

    `headers` are sent with every attempt.
    """

    def __init__(self, factory: ExchangeFactory, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self.refusal: UpstreamReply | None = None
        """The last reply with an error status."""
        self._factory = factory
        self._request = factory.request
        self._capabilities = factory.capabilities
        self._headers = headers
        self._exchange: AnyExchange | None = None
        self._native = False
        self._suspected_key = ""  # the constraint that the current exchange leaves out on suspicion
        self._refusal_stated = True  # whether the upstream answered with an error, rather than drop the connection

    async def run(self, sink: ReplySink) -> AsyncGenerator[None, None]:
        """Send the request until an attempt succeeds, and feed the events to `sink`.

        Yields when the sink wants no more for now, and at the end of each attempt before its connection is closed.
        Raises `RequestError`, and `UpstreamError` if no attempt succeeds; `fail` then has the last events.
        """
        self._native = await self._capabilities.uses_native_tools(self._request, self._factory.model.tools)
        exchange = await self._make_first()
        more = True
        while more:
            self._exchange = exchange
            try:
                async with self._capabilities.upstream.send_request(
                    exchange.upstream_request, headers=self._headers
                ) as reply:
                    await self._check_status(reply)
                    read = _reader(exchange, sink)
                    while not await reply.read_into(read):
                        yield
                        if exchange.finished:
                            break
                    _close(exchange, sink)
                    yield
            except UpstreamError as error:
                exchange = await self._fall_back(exchange, error, sink)
            else:
                self._confirm(exchange)
                more = await self._prepare_retry(exchange)
        if exchange.wants_retry:  # the retry could not be made, so the first attempt stands
            _close(exchange, sink)
            yield

    @property
    def unmended(self) -> str:
        """The defects that the reply still has after all retries, as a phrase; empty without any."""
        return "" if self._exchange is None else self._exchange.unmended

    def fail(self, error: FcshimError) -> Batch:
        """Take note that the reply failed with `error`; return its last events."""
        return [] if self._exchange is None else self._exchange.fail(error)

    async def _make_first(self) -> AnyExchange:
        """Make the first exchange to send, or the first without native tools."""
        native = self._native and uses_tools(self._request)
        backend = OFF if native else await self._capabilities.backend(self._request)
        exchange = await self._make(backend)
        if self._capabilities.is_refused(exchange.constraint_key):
            # Without a grammar, a prefill may start the required call instead; the upstream may have refused that, too.
            exchange = await self._make(unconstrained(backend))
        if self._capabilities.is_refused(exchange.constraint_key):
            exchange = await self._make(OFF)
        return exchange

    async def _make(self, backend: Backend) -> AnyExchange:
        make = functools.partial(self._factory.make, native=self._native, backend=backend)
        return await run_off_loop(self._factory.size, make)

    async def _make_retry(self, exchange: AnyExchange, backend: Backend) -> bool:
        return await run_off_loop(self._factory.size, functools.partial(exchange.prepare_retry, backend))

    async def _check_status(self, reply: UpstreamReply) -> None:
        if reply.status != 200:
            self.refusal = reply
            codec = self._capabilities.upstream.kind.codec
            raise codec.decode_error(reply.status, {}, await reply.read_error())

    async def _fall_back(self, exchange: AnyExchange, error: UpstreamError, sink: ReplySink) -> AnyExchange:
        """Return the exchange to send after `exchange` failed with `error`; raise it if no other could do better.

        Once the client has events, only a retry can be sent again, since its own events are still held back.
        """
        if exchange.is_retry:
            await self._drop_retry_constraint(exchange, error)
            return exchange
        if sink.started:
            raise error
        if self._native and self._factory.model.tools == "auto" and self._request.tools and refuses_tools(error):
            self._capabilities.native_failure_handler(self._request.model)(error.message)
            self._native = False
            fallback = await self._make_first()
        else:
            self._suspect_constraint(exchange, error)
            fallback = await self._make(OFF)
        sink.restart()
        return fallback

    async def _drop_retry_constraint(self, exchange: AnyExchange, error: UpstreamError) -> None:
        if exchange.sent_call:
            raise error
        self._suspect_constraint(exchange, error)
        backend = unconstrained(await self._capabilities.backend(self._request, for_retry=True))
        await self._make_retry(exchange, backend)

    def _suspect_constraint(self, exchange: AnyExchange, error: UpstreamError) -> None:
        """Suspect that the constraint caused `error`; raise `error` if it cannot have."""
        if not exchange.constraint_key or not may_refuse_constraint(error):
            raise error
        self._suspected_key = exchange.constraint_key
        self._refusal_stated = not error.lost
        logger.warning("%s: the upstream may refuse the constraint: %s", self._request.model, error.message)

    def _confirm(self, exchange: AnyExchange) -> None:
        """Record that the upstream answered the exchange that was sent last, and so what it accepts and refuses."""
        self._capabilities.record_success(exchange.constraint_key)
        if self._suspected_key:
            self._capabilities.record_refusal(self._suspected_key, stated=self._refusal_stated)
            self._suspected_key = ""

    async def _prepare_retry(self, exchange: AnyExchange) -> bool:
        """Prepare the next attempt of `exchange`; return false if none is wanted, or it cannot be made."""
        if not exchange.wants_retry:
            return False
        backend = await self._capabilities.backend(self._request, for_retry=True)
        if not await self._make_retry(exchange, backend):
            return False
        if self._capabilities.is_refused(exchange.constraint_key):
            await self._make_retry(exchange, unconstrained(backend))
        constrained = ", with a constraint" if exchange.constraint_key else ""
        retry_logger.info("%s: asked once more%s: %s", self._request.model, constrained, exchange.retry_reason)
        return True


def _reader(exchange: AnyExchange, sink: ReplySink) -> Callable[[bytes], bool]:
    """Return the function that takes each read of the upstream's body. It runs once per chunk."""
    decode, feed = exchange.feed, sink.feed

    def read(data: bytes) -> bool:
        return feed(decode(data)) and not exchange.finished

    return read


def _close(exchange: AnyExchange, sink: ReplySink) -> None:
    """End an attempt."""
    batch = exchange.close()
    if exchange.wants_retry:
        sink.feed(batch)
    else:
        sink.close(batch)
