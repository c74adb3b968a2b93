"""The driver of one request: it makes the attempts, sends them, and passes the events of the reply on.

Rule: when an upstream refuses native tools, a constraint or another part of a request (`omissions`), the request is
sent again without it, unless the client has already received events; the refusal is remembered once the upstream has
taken the request without it. The same settings give the same attempts in the client and in the proxy. Long work runs
beside the event loop, so that streams of other requests continue: one piece of work at a time. With one thread beside
it, the event loop gets the interpreter's lock back after a few milliseconds; so no single call of a C function may hold
the lock for long.
"""

import contextlib
import functools
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import msgspec
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from fcshim.codecs.base import UpstreamCodec
from fcshim.codecs.fill_in_middle import CODECS
from fcshim.codecs.ollama import OLLAMA, OllamaWithContext
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.option_table import left_out
from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.codecs.upstreams import UpstreamKind
from fcshim.config import ModelConfig
from fcshim.constrain.constraint import constrains_document
from fcshim.errors import FcshimError, RequestError, UpstreamError
from fcshim.events import Error, Stop
from fcshim.messages import Request, uses_tools
from fcshim.pipeline.backends import OFF, Backend, unconstrained
from fcshim.pipeline.exchange import AnyExchange, Batch, Exchange
from fcshim.pipeline.native import prepare_native
from fcshim.pipeline.native_check import CheckedExchange, CheckedNative
from fcshim.pipeline.omissions import OMISSIONS, STOP, Omission, ReducedCodec
from fcshim.pipeline.retry import shim_exchange
from fcshim.pipeline.shim import ParserOptions, Shim, prepare_shim
from fcshim.prompt.compose import PromptBudget
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.prompt.profiles import chosen_profile
from fcshim.prompt.repetition import find_repetition
from fcshim.prompt.styles import chosen_style
from fcshim.upstream import UpstreamReply
from fcshim.upstream.capabilities import Capabilities, may_refuse_constraint, refuses_tools
from fcshim.upstream.prompt_loss import PromptLoss, read_prompt

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

_UNAVAILABLE = frozenset({503, 504, 529})
"""Statuses of a server that is loading, overloaded or too slow, whatever the request."""


class ReplySink(Protocol):
    """Takes the events of one reply."""

    @property
    def started(self) -> bool:
        """Whether the client has a part of the reply, which no other attempt may contradict."""
        ...

    def restart(self) -> None:
        """Discard what was fed: another attempt restarts the reply."""
        ...

    def reader(self, exchange: AnyExchange) -> Callable[[bytes], bool]:
        """Return the function that takes each read of the reply to an attempt, and returns whether more may come now.

        The event loop calls it, so it must not block. It raises `UpstreamError` if the reply is unusable.
        """
        ...

    def feed(self, batch: Batch) -> bool:
        """Take events that came without a read; return whether more may come now. Raises `UpstreamError`."""
        ...

    def close(self, batch: Batch) -> None:
        """Take the last events of the reply. Raises `UpstreamError` as `feed` does."""
        ...


class AttemptObserver(Protocol):
    """Observes every attempt of a request; it must not raise."""

    def begin_attempt(self, exchange: AnyExchange, reason: str, *, native: bool) -> None:
        """Handle an attempt before it is sent; `reason` says why it is made, empty for the first.

        `native`: the upstream's own tool calling is used.
        """
        ...

    def fail_attempt(self, message: str) -> None:
        """Handle the failure of the attempt."""
        ...

    def lose_prompt(self, message: str) -> None:
        """Handle that the upstream has read only a part of the attempt's prompt."""
        ...

    def end_attempt(self, batch: Batch) -> None:
        """Handle the last events of the attempt."""
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

    def make(self, *, native: bool, backend: Backend, omissions: Sequence[Omission] = ()) -> AnyExchange:
        """Make it for native tools (`native`), or for the prompt, with a constraint that `backend` accepts.

        `omissions` are left out of every request of the exchange. Raises `RequestError`.
        """
        exchange = self._make(native=native, backend=backend, omissions=omissions)
        self.capabilities.record_left_out(left_out(self.request, self.capabilities.upstream.kind.codec.name))
        exchange.prepare()
        return exchange

    def _make(self, *, native: bool, backend: Backend, omissions: Sequence[Omission]) -> AnyExchange:
        codec: UpstreamCodec = self.capabilities.upstream.kind.codec
        if codec is OLLAMA and self.model.num_ctx:
            codec = OllamaWithContext(self.model.num_ctx)
        request, upstream = self.request, _reduced(codec, omissions)
        if request.suffix:
            return Exchange(request, upstream=_fill_in_codec(self.capabilities.upstream.kind, backend))
        searches_stops = STOP in omissions and bool(request.stop)
        if native and uses_tools(request):
            return self._native_exchange(upstream, request.stop if searches_stops else ())
        emulated = self.translated or uses_tools(request) or constrains_document(backend.form, request)
        if not (emulated or searches_stops):
            return Exchange(request, upstream=upstream)
        model = self.capabilities.fit_prompt(self.model, request.model)
        shim = make_shim(request, model, self.new_id, backend)
        if shim.notes:
            logger.info("%s: %s", request.model, "; ".join(shim.notes))
        if shim.codec is not None:
            shim = replace(shim, codec=_reduced(shim.codec, omissions))
        return shim_exchange(shim, upstream=upstream, max_retries=self.model.max_retries, buffered=self.buffered)

    def _native_exchange(self, upstream: UpstreamCodec, searched_stops: tuple[str, ...]) -> Exchange:
        request, rules = self.request, self.capabilities.upstream.kind.name_rules
        media = chosen_profile(self.model.profile, self.model.real_name or request.model).media
        repetition = find_repetition(request.messages, self.model.repeatable_tools)
        if repetition.notes:
            logger.info("%s: %s", request.model, "; ".join(repetition.notes))
            request = msgspec.structs.replace(request, messages=repetition.messages)
        native = prepare_native(request, name_rules=rules, media=media, searched_stops=searched_stops)
        if self.model.tools != "auto" or not request.tools or self.capabilities.upstream.kind.native_tools:
            return Exchange(request, upstream=upstream, transform=native)
        report = self.capabilities.native_tools_observer(request.model)
        checked = CheckedNative(native, report, self.new_id, self.buffered)
        return CheckedExchange(request, upstream=upstream, transform=checked)


def _fill_in_codec(kind: UpstreamKind, backend: Backend) -> UpstreamCodec:
    """Return the codec for a prompt with a suffix. Raises `RequestError` if the upstream cannot fill in the middle."""
    if kind.codec is not OPENAI_CHAT or backend.fill_in_middle is None:
        server = (
            f"the upstream's API ({kind.name})" if kind.codec is not OPENAI_CHAT else f"the upstream ({backend.name})"
        )
        raise RequestError(
            f"suffix: {server} cannot fill in the middle of a text; llama-server and Ollama can, and servers whose "
            "/completions takes a suffix",
            param="suffix",
        )
    return CODECS[backend.fill_in_middle]


def _reduced(codec: UpstreamCodec, omissions: Sequence[Omission]) -> UpstreamCodec:
    return ReducedCodec(codec, omissions) if omissions else codec


def make_shim(
    request: Request, model: ModelConfig, new_id: Callable[[], str] | None = None, backend: Backend = OFF
) -> Shim:
    """Make the shim of a request from the model's settings. Raises `RequestError`."""
    if model.real_name:
        request = msgspec.structs.replace(request, real_model=model.real_name)
    name = request.real_model or request.model
    dialect = chosen_dialect(model.dialect, name)
    repetition = find_repetition(request.messages, model.repeatable_tools)
    shim = prepare_shim(
        msgspec.structs.replace(request, messages=repetition.messages),
        dialect=dialect,
        profile=chosen_profile(model.profile, name),
        style=chosen_style(model.prompt_style, name, dialect.name),
        tools_style=model.tools_style,
        budget=PromptBudget(model.max_tools, model.prompt_budget, model.max_result),
        backend=backend,
        options=ParserOptions(
            rescue=model.rescue,
            reasoning=model.reasoning,
            open_reasoning_tag=model.open_reasoning_tag,
            arguments=model.arguments,
            new_id=new_id,
        ),
    )
    refused = repetition.refused if request.tool_choice.mode == "auto" else {}
    return replace(shim, refused_calls=refused, notes=(*shim.notes, *repetition.notes))


class RequestAttempts:
    """The attempts of one request: native tools or the prompt, with a constraint or without, and retries.

    `headers` are sent with every attempt. `refused`: the error with which the upstream has refused the client's own
    request, which was relayed. `observer` sees the attempts.
    """

    def __init__(
        self,
        factory: ExchangeFactory,
        headers: Sequence[tuple[bytes, bytes]] = (),
        refused: FcshimError | None = None,
        observer: AttemptObserver | None = None,
    ) -> None:
        self._observer = observer
        self.refusal: UpstreamReply | None = None
        """The reply of the last attempt, if it had an error status."""
        self._refused = refused
        self._omissions = list(factory.capabilities.omissions(factory.request.model))
        self._last_omission: tuple[Omission, str] | None = None  # and the message of the refusal
        self._tried_omissions = list(self._omissions)
        self._replaced: AnyExchange | None = None  # the one with native tools whose reply was not good enough
        self._native_error = ""  # the error after which the current exchange uses the prompt instead of native tools
        self._factory = factory
        self._request = factory.request
        self._capabilities = factory.capabilities
        self._headers = headers
        self._exchange: AnyExchange | None = None
        self._native = False
        self._suspected_key = ""  # the constraint that may have caused an error, so that the current exchange omits it
        self._refusal_stated = True  # whether the upstream answered with an error, rather than drop the connection

    async def run(self, sink: ReplySink) -> AsyncGenerator[None, None]:
        """Send the request until an attempt succeeds, and feed the events to `sink`.

        Yields when the sink wants no more for now, and at the end of each attempt before its connection is closed.
        Raises `RequestError`, and `UpstreamError` if no attempt succeeds; `fail` then has the last events.
        """
        self._native = self._capabilities.uses_native_tools(self._request, self._factory.model)
        exchange = await self._make_first()
        if self._refused is not None:
            exchange = await self._without_refused_part(self._refused) or exchange
        next_exchange: AnyExchange | None = exchange
        reason = ""
        while next_exchange is not None:
            exchange = next_exchange
            self._begin_attempt(exchange, reason)
            try:
                async with contextlib.aclosing(self._read_reply(exchange, sink)) as pauses:
                    async for _ in pauses:
                        yield
            except UpstreamError as error:
                reason = error.message
                if self._observer is not None:
                    self._observer.fail_attempt(reason)
                try:
                    next_exchange = await self._fall_back(exchange, error, sink)
                except UpstreamError:
                    if self._replaced is None or sink.started:
                        raise
                    # A failing retry is not reported: the reply with native tools stands.
                    exchange, next_exchange = self._replaced, None
                    sink.restart()
            else:
                self._confirm(exchange)
                next_exchange = await self._prepare_retry(exchange, sink)
                reason = exchange.retry_reason
        if exchange.wants_retry:  # the retry could not be made, so the first attempt stands
            self._close(exchange, sink)
            yield

    def _begin_attempt(self, exchange: AnyExchange, reason: str) -> None:
        self._exchange, self.refusal = exchange, None
        if self._observer is not None:
            self._observer.begin_attempt(exchange, reason, native=self._native and uses_tools(self._request))

    async def _read_reply(self, exchange: AnyExchange, sink: ReplySink) -> AsyncGenerator[None, None]:
        """Send the request of one attempt and feed its events to `sink`; yields as `run` does."""
        sending = self._capabilities.upstream.send_request(exchange.upstream_request, headers=self._headers)
        async with sending as reply:
            await self._check_status(reply)
            exchange.release_request()
            read = sink.reader(exchange)
            while not await reply.read_into(read):
                yield
                if exchange.finished:
                    break
            self._close(exchange, sink, await self._report_prompt(exchange))
            yield

    async def _report_prompt(self, exchange: AnyExchange) -> PromptLoss | None:
        """Log how the upstream has read the prompt: from its cache, again, or only in part; return what was lost."""
        prompt, usage = exchange.counted_prompt
        if usage is not None and usage.cached_tokens:
            logger.info(
                "%s: %s of %s tokens of the prompt were in the server's cache",
                self._request.model,
                f"{usage.cached_tokens:,}",
                f"{usage.input_tokens:,}",
            )
        if not exchange.is_retry and (front := self._capabilities.find_varying_front(prompt)) is not None:
            logger.info("%s: %s", self._request.model, front)
        if usage is None or not usage.input_tokens or prompt.suffix or self._factory.model.cut_prompt == "off":
            return None
        sent = await run_off_loop(self._factory.size, functools.partial(read_prompt, prompt))
        loss = await self._capabilities.find_prompt_loss(prompt, sent, usage.input_tokens)
        if loss is not None:
            logger.warning("%s: %s", self._request.model, loss)
            if self._observer is not None:
                self._observer.lose_prompt(str(loss))
        return loss

    @property
    def remaining_defects(self) -> str:
        """The defects that the reply still has after all retries, as a phrase; empty without any."""
        return "" if self._exchange is None else self._exchange.remaining_defects

    def fail(self, error: FcshimError) -> Batch:
        """Handle the failure `error` of the reply; return its last events."""
        batch = [] if self._exchange is None else self._exchange.fail(error)
        if self._observer is not None:
            self._observer.end_attempt(batch)
        return batch

    def _close(self, exchange: AnyExchange, sink: ReplySink, loss: PromptLoss | None = None) -> None:
        """End an attempt; with an error, if the upstream has lost a part of the prompt and the settings say so."""
        batch = exchange.close()
        if loss is not None and self._factory.model.cut_prompt == "error" and not exchange.wants_retry:
            batch = [*(each for each in batch if not isinstance(each[1], Stop)), (0, Error(CONTEXT_LENGTH, str(loss)))]
        if self._observer is not None:
            self._observer.end_attempt(batch)
        if exchange.wants_retry:
            sink.feed(batch)
        else:
            sink.close(batch)

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
        make = functools.partial(
            self._factory.make, native=self._native, backend=backend, omissions=tuple(self._omissions)
        )
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
        if error.lost:
            self._capabilities.models.expire()
        if exchange.is_retry:
            await self._drop_retry_constraint(exchange, error)
            return exchange
        if sink.started:
            raise error
        fallback = await self._without_refused_part(error)
        if fallback is None and self._may_use_prompt(error):
            self._native = False
            fallback = await self._make_first()
        elif fallback is None:
            self._record_failed_constraint(exchange, error)
            fallback = await self._make(OFF)
        sink.restart()
        return fallback

    async def _without_refused_part(self, error: FcshimError) -> AnyExchange | None:
        """Return the exchange without the part of the request that `error` refuses; None if there is no such part.

        Each part is left out once. It is sent again if the upstream gives the same error without it.
        """
        tried, self._last_omission = self._last_omission, None
        if tried is not None and tried[1] == error.message:
            self._omissions.remove(tried[0])
        for omission in OMISSIONS:
            if omission in self._tried_omissions or not omission.is_meant_by(error):
                continue
            self._tried_omissions.append(omission)
            complete = await self._make_first()
            self._omissions.append(omission)
            fallback = await self._make_first()
            if fallback.upstream_request.body != complete.upstream_request.body:
                logger.warning("%s: sent again without %s: %s", self._request.model, omission.summary, error.message)
                self._last_omission = omission, error.message
                return fallback
            self._omissions.remove(omission)
        return None

    def _may_use_prompt(self, error: UpstreamError) -> bool:
        """Return whether native tools may be the reason of `error`, so that the prompt could do better."""
        if not (self._native and self._factory.model.tools == "auto" and uses_tools(self._request)):
            return False
        if refuses_tools(error):
            self._capabilities.record_native_failure(self._request.model, error.message)
            return True
        status = 0 if self.refusal is None else self.refusal.status
        if status < 500 or status in _UNAVAILABLE:
            return False
        logger.warning("%s: sent again with tools in the prompt: %s", self._request.model, error.message)
        self._native_error = error.message
        return True

    async def _drop_retry_constraint(self, exchange: AnyExchange, error: UpstreamError) -> None:
        if exchange.sent_call:
            raise error
        self._record_failed_constraint(exchange, error)
        backend = unconstrained(await self._capabilities.backend(self._request, for_retry=True))
        if not await self._make_retry(exchange, backend):
            raise error

    def _record_failed_constraint(self, exchange: AnyExchange, error: UpstreamError) -> None:
        """Suspect that the constraint caused `error`; raise `error` if it cannot have."""
        if not exchange.constraint_key or not may_refuse_constraint(error):
            raise error
        self._suspected_key = exchange.constraint_key
        self._refusal_stated = not error.lost
        logger.warning("%s: the upstream may refuse the constraint: %s", self._request.model, error.message)

    def _confirm(self, exchange: AnyExchange) -> None:
        """Record that the upstream answered the exchange that was sent last, and so what it accepts and refuses."""
        self._capabilities.record_success(exchange.constraint_key)
        model = self._request.model
        if len(self._omissions) > len(self._capabilities.omissions(model)):
            self._capabilities.record_omissions(model, self._omissions)
        if self._native_error:
            self._capabilities.suspect_native_tools(model, self._native_error)
            self._native_error = ""
        elif self._native and uses_tools(self._request):
            self._capabilities.record_native_success(model)
        if self._suspected_key:
            self._capabilities.record_refusal(self._suspected_key, stated=self._refusal_stated)
            self._suspected_key = ""

    async def _prepare_retry(self, exchange: AnyExchange, sink: ReplySink) -> AnyExchange | None:
        """Return the exchange of the next attempt; None if none is wanted, or it cannot be made."""
        if not exchange.wants_retry:
            return None
        if isinstance(exchange, CheckedExchange):
            return await self._replace_native(exchange, sink)
        backend = await self._capabilities.backend(self._request, for_retry=True)
        if not await self._make_retry(exchange, backend):
            return None
        if self._capabilities.is_refused(exchange.constraint_key):
            await self._make_retry(exchange, unconstrained(backend))
        constrained = ", with a constraint" if exchange.constraint_key else ""
        retry_logger.info("%s: asked once more%s: %s", self._request.model, constrained, exchange.retry_reason)
        return exchange

    async def _replace_native(self, exchange: CheckedExchange, sink: ReplySink) -> AnyExchange:
        """Return the exchange with the tools in the prompt, in place of native tools that did not work."""
        retry_logger.info("%s: sent again with tools in the prompt: %s", self._request.model, exchange.retry_reason)
        self._native, self._replaced = False, exchange
        if not sink.started:
            sink.restart()
        fallback = await self._make_first()
        fallback.earlier_usage = exchange.usage
        return fallback
