"""The chat endpoint: with tools through the shim, without them relayed verbatim.

Rule: the status stays open until there is something to say, so that what goes wrong before is a real HTTP error; what
goes wrong after it is told in the stream, which then has no clean end.
Neighbours: `exchange` and `answer` do the work, `upstream` and `line` the I/O.
"""

import time

import msgspec

from fcshim.answer import Answer, answer_for
from fcshim.codecs.base import Codec, Identity
from fcshim.config import AUTO_PROFILE, Config, ModelConfig
from fcshim.errors import FcshimError, UpstreamError
from fcshim.exchange import Exchange
from fcshim.ids import id_source
from fcshim.messages import AssistantMessage, Request, ToolMessage
from fcshim.profiles import profile_for
from fcshim.server.line import Line, Pulse
from fcshim.server.relay import Relay
from fcshim.shim import Shim
from fcshim.upstream import Upstream, UpstreamReply

_EVENT_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
_JSON = [(b"content-type", b"application/json")]
_REPLACED = {b"content-type", b"accept"}
_RETRY = ("retry-after", "retry-after-ms")


class Chat:
    """Serves one client API's chat endpoint in front of one upstream."""

    def __init__(self, config: Config, upstream: Upstream, codec: Codec, relay: Relay) -> None:
        self._config = config
        self._upstream = upstream
        self._codec = codec
        self._relay = relay
        self._new_reply_id = id_source("chatcmpl-")
        self._new_call_id = id_source()

    async def serve(self, line: Line) -> None:
        """Answer one request. Raises `FcshimError` where nothing has been sent yet."""
        body = await line.body(self._config.max_body)
        request = self._codec.decode_request(body)
        model = self._config.for_model(request.model)
        if needs_shim(request):
            await self._converse(line, request, model)
        else:
            await self._relay.pass_on(line, renamed(body, model.upstream_model))

    async def _converse(self, line: Line, request: Request, model: ModelConfig) -> None:
        exchange = self._exchange(request, model)
        identity = Identity(id=self._new_reply_id(), created=int(time.time()), model=request.model)
        answer = answer_for(request, identity, self._codec, max_reply=self._config.max_reply)
        line.plan(200, _EVENT_STREAM if request.stream else _JSON)
        try:
            async with line.attended(self._pulse(answer) if request.stream else None):
                await self._pump(line, exchange, answer)
        except UpstreamError as error:
            events = exchange.fail(error)
            if not answer.begun and (exchange.error is not None or not events):
                raise
            await line.end(answer.feed(events) + answer.close())

    async def _pump(self, line: Line, exchange: Exchange, answer: Answer) -> None:
        headers = [pair for pair in self._relay.forwarded(line.headers) if pair[0] not in _REPLACED]
        async with self._upstream.ask(exchange.outgoing, headers=headers) as reply:
            if reply.status != 200:
                line.extra_headers += _kept(reply)
                raise await self._refusal(reply)
            async for data in reply:
                await line.write(answer.feed(exchange.feed(data)))
                if exchange.finished:
                    break
            await line.end(answer.feed(exchange.close()) + answer.close())

    def _exchange(self, request: Request, model: ModelConfig) -> Exchange:
        asked = msgspec.structs.replace(request, model=model.upstream_model or request.model)
        shim = Shim(
            asked,
            dialect=model.dialect,
            profile=profile_for(asked.model) if model.profile == AUTO_PROFILE else model.profile,
            rescue=model.rescue,
            reasoning=model.reasoning,
            arguments=model.arguments,
            new_id=self._new_call_id,
        )
        return Exchange(asked, upstream=self._codec, shim=shim)

    def _pulse(self, answer: Answer) -> Pulse:
        return Pulse(answer.ping, before=self._config.first_ping, running=self._config.ping)

    async def _refusal(self, reply: UpstreamReply) -> FcshimError:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reply.headers}
        return self._codec.decode_error(reply.status, headers, await reply.read_error())


def needs_shim(request: Request) -> bool:
    """Tell whether a request offers tools or tells of calls: a model that knows none could not make sense of it."""
    return bool(request.tools) or any(
        isinstance(message, ToolMessage) or (isinstance(message, AssistantMessage) and message.tool_calls)
        for message in request.messages
    )


def renamed(body: bytes, model: str | None) -> bytes:
    """Give the request body with another model name; every other byte of a value stays as it is."""
    if model is None:
        return body
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**fields, "model": model})


def _kept(reply: UpstreamReply) -> list[tuple[bytes, bytes]]:
    """Give the headers of an error answer that tell the client when to come again."""
    return [(name.encode(), reply.header(name).encode("latin-1")) for name in _RETRY if reply.header(name)]
