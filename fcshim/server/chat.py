"""The endpoints that give a reply, of every client API.

Rule: what needs no shim is relayed verbatim where the upstream speaks the client's API. The status stays open until
there is something to say, so that what goes wrong before is a real HTTP error; what goes wrong after it is told in the
stream, which then has no clean end.
Neighbours: `exchange` and `answer` do the work, `upstream` and `line` the I/O.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fcshim.answer import Answer, answer_for
from fcshim.codecs.base import Codec, Identity
from fcshim.codecs.memory import Memory
from fcshim.codecs.table import CODECS, Found
from fcshim.config import AUTO_PROFILE, Config, ModelConfig
from fcshim.doubt import Doubted
from fcshim.enforcement import Enforcement, may_refuse_constraint
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import Error
from fcshim.exchange import Exchange
from fcshim.ids import id_source, secret_source
from fcshim.inquiry import Aptitude, refuses_tools
from fcshim.messages import Request, uses_tools
from fcshim.native import Native
from fcshim.profiles import GENERIC, Profile, Server, get_profile, profile_for
from fcshim.prompt.budget import Room
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.server.course import Course
from fcshim.server.guard import client_key
from fcshim.server.line import Line, Pulse
from fcshim.server.own_tools import OwnTools
from fcshim.server.relay import Relay
from fcshim.shim import Shim
from fcshim.stage import Stage
from fcshim.upstream import Upstream, UpstreamReply, key_header

logger = logging.getLogger("fcshim.server")

_STREAM = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
_REPLACED = {b"content-type", b"accept"}
_RETRY = ("retry-after", "retry-after-ms")


@dataclass(frozen=True, slots=True)
class _Errand:
    """One request: as its client wrote it, and as the model is asked; `course` where tools run here."""

    line: Line
    codec: Codec
    model: ModelConfig
    request: Request
    asked: Request
    course: Course | None


class Chat:
    """Serves every client API in front of one upstream."""

    def __init__(self, config: Config, upstream: Upstream, relay: Relay, memory: Memory, own_tools: OwnTools) -> None:
        self._config = config
        self._memory = memory
        self._upstream = upstream
        self._kind = upstream.kind
        self._codec = upstream.kind.codec
        self._enforcement = Enforcement(upstream, config.constrain)
        self.aptitude = Aptitude(upstream)
        self._relay = relay
        self._own_tools = own_tools
        self._new_id = {
            **{each.call_prefix: id_source(each.call_prefix) for each in CODECS.values()},
            **{each.reply_prefix: secret_source(each.reply_prefix) for each in CODECS.values()},
        }

    async def serve(self, line: Line, found: Found) -> None:
        """Answer one request. Raises `FcshimError` where nothing has been sent yet."""
        codec = found.api.codec
        body = await line.body(self._config.max_body)
        relayed = self._remembers(found)
        target = found.target(line.path, line.query, None if relayed else self._memory, relayed=relayed)
        request = codec.decode_request(body, target)
        for note in request.notes:
            logger.info("%s %s: %s", line.method, line.path, note)
        model = self._config.for_model(request.model)
        asked, course = self._own_tools.join(request, line)
        if asked is request and await self._is_relayed(request, model, found):
            await self._relay.pass_on(line, renamed(body, model.upstream_model))
        elif not request.messages:
            await line.answer(200, codec.encode_reply(request, self._identity(request, codec), ()))
        else:
            await self._converse(_Errand(line, codec, model, request, asked, course))

    async def _is_relayed(self, request: Request, model: ModelConfig, found: Found) -> bool:
        """Tell whether the upstream gets the request as it came: it speaks the API, and there is nothing to do."""
        if found.api.codec is not self._codec or (model.upstream_model and "model" in found.parts):
            return False
        if found.api.remembers:
            return self._remembers(found)
        return not uses_tools(request) or (self._kind.faithful and await self._is_native(request, model))

    def _remembers(self, found: Found) -> bool:
        """Tell whether earlier replies are the upstream's to remember: it gives them all."""
        there = found.api.codec is self._codec and self._kind.faithful
        return there and self._config.tools != "prompt" and self._config.mcp is None

    async def _is_native(self, request: Request, model: ModelConfig) -> bool:
        if model.tools == "auto" and uses_tools(request):
            return await self.aptitude.is_native(model.upstream_model or request.model)
        return model.tools == "native"

    def _identity(self, request: Request, codec: Codec) -> Identity:
        began = time.monotonic()
        return Identity(
            id=self._new_id[codec.reply_prefix](),
            created=int(time.time()),
            model=request.model,
            clock=lambda: time.monotonic() - began,
            memory=self._memory,
        )

    async def _converse(self, errand: _Errand) -> None:
        """Have the conversation; once more by the prompt where the upstream turns out to refuse tools."""
        model, asked, course = errand.model, errand.asked, errand.course
        native = await self._is_native(asked, model)
        try:
            await self._attempt(errand, native=native)
        except UpstreamError as error:
            late = errand.line.started or (course is not None and not course.restart())
            if not native or model.tools != "auto" or late or not (asked.tools and refuses_tools(error)):
                raise
            self.aptitude.distrust(model.upstream_model or asked.model)(error.message)
            await self._attempt(errand, native=False)

    async def _attempt(self, errand: _Errand, *, native: bool) -> None:
        """Have the conversation; once more without the constraint where the upstream may have refused it."""
        server = GENERIC if native else await self._enforcement.server(errand.asked)
        exchange = self._exchange(errand, native=native, server=server)
        if self._enforcement.is_refused(exchange.constraint):
            exchange = self._exchange(errand, native=native)
        try:
            await self._hold(errand, exchange, native=native)
        except UpstreamError as error:
            if not exchange.constraint or errand.line.started or not may_refuse_constraint(error):
                raise
            if errand.course is not None and not errand.course.restart():
                raise
            await self._hold(errand, self._exchange(errand, native=native), native=native)
            logger.warning("%s: the upstream refuses the constraint: %s", errand.asked.model, error.message)
            self._enforcement.learn(exchange.constraint)

    def _exchange(self, errand: _Errand, *, native: bool, server: Server = GENERIC) -> Exchange:
        return self.exchange(errand.asked, errand.model, errand.codec, native=native, server=server)

    async def _hold(self, errand: _Errand, exchange: Exchange, *, native: bool) -> None:
        line, request = errand.line, errand.request
        identity = self._identity(request, errand.codec)
        answer = answer_for(request, identity, errand.codec, max_reply=self._config.max_reply)
        line.plan(200, [(b"content-type", answer.content_type.encode()), *(_STREAM if request.stream else ())])
        try:
            async with line.attended(self._pulse(answer) if request.stream else None):
                await self._pump(errand, exchange, answer)
                while errand.course is not None and not errand.course.over:
                    rest = await errand.course.go_on()
                    if rest:
                        await line.end(answer.feed(rest) + answer.close())
                    else:
                        exchange = self.exchange(errand.course.request, errand.model, errand.codec, native=native)
                        await self._pump(errand, exchange, answer)
        except FcshimError as error:
            events = exchange.fail(error)
            if errand.course is not None:
                events = errand.course.fail(events, error)
            if not answer.begun and (not events or isinstance(events[-1][1], Error)):
                raise
            await line.end(answer.feed(events) + answer.close())

    async def _pump(self, errand: _Errand, exchange: Exchange, answer: Answer) -> None:
        """Ask the upstream, and write what the client is to see, to the end where nothing is left to do."""
        line, course = errand.line, errand.course
        feed = answer.feed if course is None else lambda batch: answer.feed(course.feed(batch))
        headers = self._headers(line, errand.codec)
        async with self._upstream.ask(exchange.outgoing, headers=headers) as reply:
            if reply.status != 200:
                line.extra_headers += _kept(reply)
                raise await self._refusal(reply)

            def take(data: bytes) -> bool:
                return line.push(feed(exchange.feed(data))) and not exchange.finished

            while not await reply.pour(take) and not exchange.finished:
                await line.settle()
            rest = feed(exchange.close())
            if course is None or course.over:
                await line.end(rest + answer.close())
            else:
                await line.settle()
                await line.write(rest)

    def _headers(self, line: Line, codec: Codec) -> list[tuple[bytes, bytes]]:
        """Give the client's headers that the upstream may see; those of another API mean nothing there but the key."""
        if codec is self._codec:
            return [pair for pair in self._relay.forwarded(line.headers) if pair[0] not in _REPLACED]
        key = client_key(line.headers, line.query)
        if not key or not self._config.forward_client_key or self._config.upstream_key is not None:
            return []
        return [key_header(self._kind, key)]

    def exchange(
        self, request: Request, model: ModelConfig, codec: Codec, *, native: bool, server: Server = GENERIC
    ) -> Exchange:
        """Make the exchange between a client of `codec` and the upstream, with whatever has to stand between them."""
        foreign = codec is not self._codec
        style = "" if foreign else request.style
        asked = msgspec.structs.replace(request, model=model.upstream_model or request.model, style=style)
        stage: Stage | None = None
        if native:
            stage = Native(asked, alphabet=self._kind.names, media=_profile(asked, model).media)
            if model.tools == "auto" and asked.tools:
                stage = Doubted(stage, self.aptitude.distrust(asked.model))
        elif foreign or uses_tools(request):
            stage = shim = shim_for(asked, model, self._new_id[codec.call_prefix], server)
            for note in shim.notes:
                logger.info("%s: %s", asked.model, note)
        return Exchange(asked, upstream=self._codec, shim=stage)

    def _pulse(self, answer: Answer) -> Pulse:
        return Pulse(answer.ping, before=self._config.first_ping, running=self._config.ping)

    async def _refusal(self, reply: UpstreamReply) -> FcshimError:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reply.headers}
        return self._codec.decode_error(reply.status, headers, await reply.read_error())


def shim_for(
    request: Request, model: ModelConfig, new_id: Callable[[], str] | None = None, server: Server = GENERIC
) -> Shim:
    """Make the shim of a request, as the model's settings say."""
    return Shim(
        request,
        dialect=chosen_dialect(model.dialect, model.upstream_model or request.model),
        profile=_profile(request, model),
        tools_style=model.tools_style,
        rescue=model.rescue,
        reasoning=model.reasoning,
        in_reasoning=model.in_reasoning,
        arguments=model.arguments,
        room=Room(model.max_tools, model.prompt_budget, model.max_result),
        new_id=new_id,
        server=server,
    )


def _profile(request: Request, model: ModelConfig) -> Profile:
    return profile_for(request.model) if model.profile == AUTO_PROFILE else get_profile(model.profile)


def renamed(body: bytes, model: str | None) -> bytes:
    """Give the request body with another model name; every other byte of a value stays as it is."""
    if model is None:
        return body
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**fields, "model": model})


def _kept(reply: UpstreamReply) -> list[tuple[bytes, bytes]]:
    """Give the headers of an error answer that tell the client when to come again."""
    return [(name.encode(), reply.header(name).encode("latin-1")) for name in _RETRY if reply.header(name)]
