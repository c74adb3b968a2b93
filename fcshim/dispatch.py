"""The driver of one request: it makes the attempts, sends them, and passes the events of the reply on.

Theory of operation. One `Exchange` holds the attempts and what becomes of their replies; its state says what is to be
done next. The driver does the rest: it knows what the upstream supports, sends what the exchange wants sent, and passes
each read of the body to the exchange, and the events that come out of it to the client's sink (`_read_reply`).

Rule: when an upstream refuses native tools, a constraint or another part of a request (`omissions`), the request is
sent again without it, unless the client has already received events; the refusal is remembered once the upstream has
taken the request without it. The same settings give the same attempts in the client and in the proxy. Long work runs
beside the event loop, so that streams of other requests continue: one piece of work at a time. With one thread beside
it, the event loop gets the interpreter's lock back after a few milliseconds; so no single call of a C function may hold
the lock for long.
"""

import contextlib
import functools
import itertools
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
from fcshim.codecs.prompt_progress import PROGRESS_FIELD, PromptProgress
from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.codecs.upstreams import UpstreamKind
from fcshim.config import ModelConfig
from fcshim.constrain.constraint import constrains_document
from fcshim.errors import FcshimError, RequestError, UpstreamError
from fcshim.events import Error, Stop, Usage
from fcshim.messages import Request, has_media, text_of, uses_tools
from fcshim.pipeline.attempt import Batch, Plan, estimate_usage
from fcshim.pipeline.backends import OFF, Backend, unconstrained
from fcshim.pipeline.exchange import RECEIVING, Exchange, ExchangeState
from fcshim.pipeline.native import prepare_native
from fcshim.pipeline.no_call import NoCall, explain_no_call
from fcshim.pipeline.omissions import OMISSIONS, STOP, Omission, media_of
from fcshim.pipeline.shim import ParserOptions, Shim, prepare_shim
from fcshim.prompt.compose import PromptBudget, fit_messages
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.prompt.profiles import chosen_profile
from fcshim.prompt.repetition import find_repetition
from fcshim.prompt.styles import chosen_style
from fcshim.upstream import UpstreamReply
from fcshim.upstream.capabilities import Capabilities, may_refuse_constraint, refuses_tools
from fcshim.upstream.prompt_reading import PromptLoss, read_prompt

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

_MAX_REPORTED = 8
"""Invalid calls of one reply that are logged."""
_LONG_PROMPT = 4_096
"""Characters of a conversation from which the server's progress is of interest: a second of reading on a laptop."""
_CHANGING_FIELDS = frozenset({"cachedContent", "cached_content", "container", "context_management", "mcp_servers"})
"""Fields of one API by which its server changes the prompt: stored text, tools of its own, results that it clears."""
_UNAVAILABLE = frozenset({503, 504, 529})
"""Statuses of a server that is loading, overloaded or too slow, whatever the request."""


class ReplySink(Protocol):
    """Takes the events of one reply. All but `started` raise `UpstreamError` if the reply is unusable."""

    @property
    def started(self) -> bool:
        """Whether the client has a part of the reply, which no other attempt may contradict."""
        ...

    def restart(self) -> None:
        """Discard what was fed: another attempt restarts the reply."""
        ...

    def feed(self, batch: Batch) -> bool:
        """Take the events of one read, often none; return whether more may come now.

        The event loop calls it, so it must not block.
        """
        ...

    def close(self, batch: Batch) -> None:
        """Take the last events of the reply."""
        ...


class PromptObserver(Protocol):
    """Observes how the upstream has read a prompt; it must not raise."""

    def lose_prompt(self, message: str) -> None:
        """Handle that the upstream has read only a part of the prompt."""
        ...

    def vary_prompt(self, message: str) -> None:
        """Handle that text at the front of the prompt varies, so that much is read again."""
        ...


class AttemptObserver(PromptObserver, Protocol):
    """Observes every attempt of a request; it must not raise."""

    def begin_attempt(self, exchange: Exchange, reason: str, *, native: bool) -> None:
        """Handle an attempt before it is sent; `reason` says why it is made, empty for the first.

        `native`: the upstream's own tool calling is used.
        """
        ...

    def reader(self, exchange: Exchange, feed: Callable[[Batch], bool]) -> Callable[[bytes], bool]:
        """Return a function that does for each read what `RequestAttempts.read` does, and observes it."""
        ...

    def fail_attempt(self, message: str) -> None:
        """Handle the failure of the attempt."""
        ...

    def end_attempt(self, batch: Batch) -> None:
        """Handle the last events of the attempt."""
        ...

    def miss_call(self, no_call: NoCall) -> None:
        """Handle that the reply has no call although tools were offered."""
        ...


@dataclass(frozen=True, slots=True)
class AttemptPlanner:
    """Plans the first attempt of one request, with the transform that the model's settings ask for.

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
    """Bytes of the client's request, if other requests must not wait while an attempt is made of a large one."""

    def begin(self, exchange: Exchange, *, native: bool, backend: Backend, omissions: Sequence[Omission] = ()) -> None:
        """Begin an attempt with native tools (`native`), or the prompt and a constraint that `backend` accepts.

        `omissions` are left out of every request of the exchange. Raises `RequestError`.
        """
        kind, request = self.capabilities.upstream.kind, self.request
        if request.extra:
            self.capabilities.record_left_out(left_out(request, kind.codec.name))
        size = sum(len(text_of(message.content)) for message in request.messages)
        if size >= _LONG_PROMPT and self.capabilities.is_llama_server(request.model):
            # It reports how far it has read the prompt, if the request asks for it.
            request = msgspec.structs.replace(request, extra={**request.extra, PROGRESS_FIELD: True})
        if request.suffix:
            exchange.begin(request, _fill_in_codec(kind, backend))
            return
        codec: UpstreamCodec = kind.codec
        if codec is OLLAMA and self.model.num_ctx:
            codec = OllamaWithContext(self.model.num_ctx)
        exchange.begin(self._plan(request, native=native, backend=backend, omissions=omissions), codec, omissions)

    def _plan(self, request: Request, *, native: bool, backend: Backend, omissions: Sequence[Omission]) -> Plan:
        searches_stops = STOP in omissions and bool(request.stop)
        if native and uses_tools(request):
            return self._native_plan(request, request.stop if searches_stops else ())
        emulated = self.translated or uses_tools(request) or constrains_document(backend.form, request)
        if not (emulated or searches_stops):
            return request
        model = self.capabilities.fit_prompt(self.model, request.model)
        shim = make_shim(request, model, self.new_id, backend)
        if shim.notes:
            logger.info("%s: %s", request.model, "; ".join(shim.notes))
        return shim

    def _native_plan(self, request: Request, searched_stops: tuple[str, ...]) -> Plan:
        kind = self.capabilities.upstream.kind
        is_checked = self.model.tools == "auto" and request.tools and not kind.native_tools
        repetition = find_repetition(request.messages, self.model.repeatable_tools)
        # Unlike a prompt's budget, which the operator sets, this limit is the server's, whoever writes the tools.
        limit = self.capabilities.fit_prompt(msgspec.structs.replace(self.model, prompt_budget=0), request.model)
        fitted = fit_messages(
            msgspec.structs.replace(request, messages=repetition.messages),
            PromptBudget(prompt_budget=limit.prompt_budget, max_result=0),
        )
        if notes := (*repetition.notes, *fitted.notes):
            logger.info("%s: %s", request.model, "; ".join(notes))
        native = prepare_native(
            msgspec.structs.replace(request, messages=fitted.messages),
            name_rules=kind.name_rules,
            media=chosen_profile(self.model.profile, self.model.real_name or request.model).media,
            searched_stops=searched_stops,
            report=self.capabilities.tools.observer(request.model) if is_checked else None,
            new_id=self.new_id,
            buffered=self.buffered,
        )
        return replace(native, refused_calls=repetition.refused if request.tool_choice.mode == "auto" else {})


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


def make_shim(
    request: Request, model: ModelConfig, new_id: Callable[[], str] | None = None, backend: Backend = OFF
) -> Shim:
    """Make the shim of a request from the model's settings. Raises `RequestError`."""
    if model.real_name:
        request = msgspec.structs.replace(request, real_model=model.real_name)
    name = request.real_model or request.model
    dialect = chosen_dialect(model.dialect, name)
    repetition = find_repetition(request.messages, model.repeatable_tools)
    # Arguments are sent whole if an invalid call must be an error and no retry looks for one.
    is_unchecked = request.n > 1 or not model.max_retries
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
            arguments="validated" if model.invalid_calls == "error" and is_unchecked else model.arguments,
            invalid_calls=model.invalid_calls,
            new_id=new_id,
        ),
    )
    refused = repetition.refused if request.tool_choice.mode == "auto" else {}
    return replace(shim, refused_calls=refused, notes=(*shim.notes, *repetition.notes))


async def report_prompt(
    prompt: Request,
    usage: Usage | None,
    planner: AttemptPlanner,
    observer: PromptObserver | None,
    *,
    is_retry: bool = False,
) -> PromptLoss | None:
    """Log how the upstream has read a prompt: from its cache, again, or only in part; return what was lost.

    `planner` has the model's settings; `prompt` is the request as the upstream got it.
    """
    name, capabilities = prompt.model, planner.capabilities
    if usage is not None and usage.cached_tokens:
        logger.info(
            "%s: %s of %s tokens of the prompt were in the server's cache",
            name,
            f"{usage.cached_tokens:,}",
            f"{usage.input_tokens:,}",
        )
    if not is_retry and (front := capabilities.find_varying_front(prompt)) is not None:
        logger.info("%s: %s", name, front)
        if observer is not None:
            observer.vary_prompt(str(front))
    if usage is None or not usage.input_tokens or prompt.suffix or planner.model.cut_prompt == "off":
        return None
    changes = itertools.chain(*map(_CHANGING_FIELDS.intersection, prompt.verbatim.values()))
    if prompt.provider_tools or any(changes):
        return None
    sent = await run_off_loop(planner.size, functools.partial(read_prompt, prompt))
    loss = await capabilities.find_prompt_loss(prompt, sent, usage.input_tokens)
    if loss is not None:
        logger.warning("%s: %s", name, loss)
        if observer is not None:
            observer.lose_prompt(str(loss))
    return loss


class RequestAttempts:
    """The attempts of one request: native tools or the prompt, with a constraint or without, and retries.

    `headers` are sent with every attempt. `refused`: the error with which the upstream has refused the client's own
    request, which was relayed. `observer` sees the attempts.
    """

    def __init__(
        self,
        planner: AttemptPlanner,
        headers: Sequence[tuple[bytes, bytes]] = (),
        refused: FcshimError | None = None,
        observer: AttemptObserver | None = None,
    ) -> None:
        self._observer = observer
        self.refusal: UpstreamReply | None = None
        """The reply of the last attempt, if it had an error status."""
        self._refused = refused
        self._omissions = list(planner.capabilities.omissions(planner.request.model))
        self._last_omission: tuple[Omission, str] | None = None  # and the message of the refusal
        self._tried_omissions = list(self._omissions)
        self._native_error = ""  # the error after which the current attempt uses the prompt instead of native tools
        self._planner = planner
        self._request = planner.request
        self._capabilities = planner.capabilities
        self._headers = headers
        self._exchange = Exchange(max_retries=planner.model.max_retries, buffered=planner.buffered)
        self._native = False
        self._suspected_key = ""  # the constraint that may have caused an error, so that the current attempt omits it
        self._refusal_stated = True  # whether the upstream answered with an error, rather than drop the connection

    async def run(self, sink: ReplySink) -> AsyncGenerator[None, None]:
        """Send the request until an attempt succeeds, and feed the events to `sink`.

        Yields when the sink wants no more for now, and at the end of each attempt before its connection is closed.
        Raises `RequestError`, and `UpstreamError` if no attempt succeeds; `fail` then has the last events.
        """
        exchange, reason = self._exchange, ""
        self._native = self._capabilities.tools.uses_native(self._request, self._planner.model)
        if self._planner.model.tool_search == "translated" and not self._native:
            await self._translate_messages()
        await self._begin()
        if self._refused is not None and not await self._leave_out_refused(self._refused):
            await self._begin()
        while exchange.state in RECEIVING:
            self.refusal = None
            if self._observer is not None:
                self._observer.begin_attempt(exchange, reason, native=self._native and uses_tools(self._request))
            try:
                async with contextlib.aclosing(self._read_reply(sink)) as pauses:
                    async for _ in pauses:
                        yield
            except UpstreamError as error:
                reason = error.message
                goes_on = await self._fall_back(error, sink)
            else:
                self._confirm()
                goes_on = True
                if exchange.state is ExchangeState.DECIDING:
                    reason = exchange.attempt.defect
                    goes_on = await self._ask_again(sink, reason)
            if not goes_on:
                self._end(exchange.give_up(), sink)
                yield

    async def _translate_messages(self) -> None:
        """Add English words to the user's messages, if the prompt leaves tools out."""
        request = self._request
        if not 0 < self._planner.model.max_tools < len(request.tools) or request.tool_choice.mode == "none":
            return
        backend = await self._capabilities.backend(request, for_retry=True)
        self._request = await self._capabilities.translations.add_to(request, backend)
        self._planner = replace(self._planner, request=self._request)

    async def _read_reply(self, sink: ReplySink) -> AsyncGenerator[None, None]:
        """Send the request of one attempt: bytes go into the exchange, events come out and go to the sink.

        Yields as `run` does.
        """
        exchange, feed = self._exchange, sink.feed

        def read(data: bytes) -> bool:
            return feed(exchange.feed(data)) and not exchange.finished

        sending = self._capabilities.upstream.send_request(exchange.attempt.upstream_request, headers=self._headers)
        async with sending as reply:
            if reply.status != 200:
                self.refusal = reply
                codec = self._capabilities.upstream.kind.codec
                raise codec.decode_error(reply.status, {}, await reply.read_error())
            exchange.attempt.release_request()
            observed = read if self._observer is None else self._observer.reader(exchange, feed)
            while not await reply.read_into(observed):
                yield
                if exchange.finished:
                    break
            attempt = exchange.attempt
            # Before the end, which estimates missing tokens.
            loss = await report_prompt(
                attempt.request, attempt.usage, self._planner, self._observer, is_retry=attempt.is_retry
            )
            self._end(exchange.close(), sink, loss)
            yield

    def _end(self, batch: Batch, sink: ReplySink, loss: PromptLoss | None = None) -> None:
        """Pass the last events of an attempt on, which end the reply unless another attempt may follow.

        It ends with an error if the upstream has lost a part of the prompt, and the settings say so.
        """
        may_go_on = self._exchange.state is ExchangeState.DECIDING
        if loss is not None and self._planner.model.cut_prompt == "error" and not may_go_on:
            batch = [*(each for each in batch if not isinstance(each[1], Stop)), (0, Error(CONTEXT_LENGTH, str(loss)))]
        if self._observer is not None:
            self._observer.end_attempt(batch)
        if may_go_on:
            sink.feed(batch)
            return
        self._report_calls(batch)
        sink.close(batch)

    def _report_calls(self, batch: Batch) -> None:
        """Log which calls of the reply are invalid, or why it has none although tools were offered."""
        exchange, model = self._exchange, self._planner.model
        for defect in itertools.islice(exchange.invalid_calls.values(), _MAX_REPORTED):
            retry_logger.warning("%s: delivered %s (--invalid-calls error ends it)", self._request.model, defect)
        stop_reason = next((event.stop_reason for _, event in batch if isinstance(event, Stop)), "error")
        if exchange.has_calls or stop_reason in {"tool_use", "error"}:
            return
        no_call = explain_no_call(exchange.attempt, exchange.final_defects, stop_reason)
        if no_call is None:
            return
        source = f"dialect {no_call.dialect}, by {model.dialect_reason}" if model.dialect_reason else no_call.dialect
        logger.info(
            "%s: %d %s offered, no call: %s; %s",
            self._request.model,
            no_call.tool_count,
            "tool" if no_call.tool_count == 1 else "tools",
            no_call.phrase,
            source if no_call.dialect else "native tools",
        )
        if self._observer is not None:
            self._observer.miss_call(no_call)

    @property
    def progress(self) -> PromptProgress | None:
        """How far the upstream has read the prompt of the current attempt, if it has said so."""
        return None if self._exchange.state is ExchangeState.NEW else self._exchange.attempt.decoder.progress

    @property
    def prompt_tokens(self) -> int:
        """The estimated tokens of the prompt of the current attempt; 0 before the first."""
        if self._exchange.state is ExchangeState.NEW:
            return 0
        return estimate_usage(self._exchange.attempt.request, 0).input_tokens

    @property
    def remaining_defects(self) -> str:
        """The defects that the reply still has after all retries, as a phrase; empty without any."""
        return self._exchange.remaining_defects

    @property
    def raw_text(self) -> str:
        """What the model wrote, if defects remain: the client does not get all of it."""
        return self._exchange.raw_text

    def fail(self, error: FcshimError) -> Batch:
        """Handle the failure `error` of the reply; return its last events."""
        batch = self._exchange.fail(error)
        if self._observer is not None:
            self._observer.end_attempt(batch)
        return batch

    async def _begin(self) -> None:
        """Begin the first attempt, or the first without native tools."""
        native = self._native and uses_tools(self._request)
        backend = OFF if native else await self._capabilities.backend(self._request)
        await self._begin_with(backend)
        if self._is_constraint_refused():
            # Without a grammar, a prefill may start the required call instead; the upstream may have refused that, too.
            await self._begin_with(unconstrained(backend))
        if self._is_constraint_refused():
            await self._begin_with(OFF)

    async def _begin_with(self, backend: Backend) -> None:
        begin = functools.partial(
            self._planner.begin,
            self._exchange,
            native=self._native,
            backend=backend,
            omissions=tuple(self._omissions),
        )
        await run_off_loop(self._planner.size, begin)

    async def _retry_with(self, backend: Backend) -> bool:
        return await run_off_loop(self._planner.size, functools.partial(self._exchange.retry, backend))

    def _is_constraint_refused(self) -> bool:
        return self._capabilities.constraints.is_refused(self._exchange.attempt.constraint_key)

    async def _fall_back(self, error: UpstreamError, sink: ReplySink) -> bool:
        """Make another attempt after `error`; return false if an earlier reply stands instead, or raise it."""
        if self._observer is not None:
            self._observer.fail_attempt(error.message)
        if self._exchange.state is ExchangeState.ENDED:  # the reply was complete, and could not be written
            raise error
        try:
            await self._make_fallback(error, sink)
        except UpstreamError:
            if sink.started or not self._exchange.earlier:
                raise
            sink.restart()
            return False
        return True

    async def _make_fallback(self, error: UpstreamError, sink: ReplySink) -> None:
        """Make another attempt after `error`; raise it if no other could do better.

        Once the client has events, only a retry can be sent again, since its own events are still held back.
        """
        if error.lost:
            self._capabilities.models.expire()
        if self._exchange.attempt.is_retry:
            if self._exchange.attempt.sent_call:
                raise error
            self._record_failed_constraint(error)
            backend = unconstrained(await self._capabilities.backend(self._request, for_retry=True))
            if not await self._retry_with(backend):
                raise error
            return
        if sink.started:
            raise error
        if not await self._leave_out_refused(error):
            if self._may_use_prompt(error):
                self._native = False
                await self._begin()
            else:
                self._record_failed_constraint(error)
                await self._begin_with(OFF)
        sink.restart()

    async def _leave_out_refused(self, error: FcshimError) -> bool:
        """Begin an attempt without the part of the request that `error` refuses; return false if there is no such part.

        Each part is left out once. It is sent again if the upstream gives the same error without it. Media are not
        suspected where the error names tools, which are left out first.
        """
        names_tools = self._native and uses_tools(self._request) and refuses_tools(error)
        media = () if names_tools else media_of(self._request)
        tried, self._last_omission = self._last_omission, None
        if tried is not None and tried[1] == error.message:
            self._omissions.remove(tried[0])
        for omission in OMISSIONS:
            if omission in self._tried_omissions or (omission.is_medium and omission not in media):
                continue
            if not self._capabilities.may_refuse(self._request.model, omission, error):
                continue
            self._tried_omissions.append(omission)
            await self._begin()
            complete = self._exchange.attempt.upstream_request.body
            self._omissions.append(omission)
            await self._begin()
            if self._exchange.attempt.upstream_request.body != complete:
                logger.warning("%s: sent again without %s: %s", self._request.model, omission.summary, error.message)
                self._last_omission = omission, error.message
                return True
            self._omissions.remove(omission)
        return False

    def _may_use_prompt(self, error: UpstreamError) -> bool:
        """Return whether native tools may be the reason of `error`, so that the prompt could do better."""
        if not (self._native and self._planner.model.tools == "auto" and uses_tools(self._request)):
            return False
        if refuses_tools(error):
            self._capabilities.tools.record_refusal(self._request.model, error.message)
            return True
        status = 0 if self.refusal is None else self.refusal.status
        if status < 500 or status in _UNAVAILABLE:
            return False
        logger.warning("%s: sent again with tools in the prompt: %s", self._request.model, error.message)
        self._native_error = error.message
        return True

    def _record_failed_constraint(self, error: UpstreamError) -> None:
        """Suspect that the constraint caused `error`; raise `error` if it cannot have."""
        key = self._exchange.attempt.constraint_key
        if not key or not may_refuse_constraint(error):
            raise error
        self._suspected_key = key
        self._refusal_stated = not error.lost
        logger.warning("%s: the upstream may refuse the constraint: %s", self._request.model, error.message)

    def _confirm(self) -> None:
        """Record that the upstream answered the attempt that was sent last, and so what it accepts and refuses."""
        self._capabilities.constraints.record_success(self._exchange.attempt.constraint_key)
        model = self._request.model
        if len(self._omissions) > len(self._capabilities.omissions(model)):
            self._capabilities.record_omissions(model, self._omissions)
        if has_media(self._request):
            self._capabilities.record_media(model, set(media_of(self._request)).difference(self._omissions))
        if self._native_error:
            self._capabilities.tools.record_error(model, self._native_error)
            self._native_error = ""
        if self._suspected_key:
            self._capabilities.constraints.record_refusal(self._suspected_key, stated=self._refusal_stated)
            self._suspected_key = ""

    async def _ask_again(self, sink: ReplySink, reason: str) -> bool:
        """Make the next attempt after one with defects, the `reason`; return false if it cannot be made."""
        exchange, model = self._exchange, self._request.model
        if self._native and uses_tools(self._request):
            retry_logger.info("%s: sent again with tools in the prompt: %s", model, reason)
            self._native = False
            if not sink.started:
                sink.restart()
            await self._begin()
            return True
        backend = await self._capabilities.backend(self._request, for_retry=True)
        if not await self._retry_with(backend):
            return False
        if self._is_constraint_refused():
            await self._retry_with(unconstrained(backend))
        constrained = ", with a constraint" if exchange.attempt.constraint_key else ""
        retry_logger.info("%s: asked once more%s: %s", model, constrained, reason)
        return True
