"""The endpoints of every client API that return a model's reply.

Rule: a request that needs no shim is relayed byte for byte if the upstream speaks the client's API. The status is not
sent before the first bytes of the body, so an earlier failure is a real HTTP error. A later failure is an error event
in the stream, which then has no clean end.
"""

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from fcshim.codecs.base import Codec, ReplyIdentity
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.prompt_progress import PromptProgress
from fcshim.codecs.routes import CODECS, RouteMatch
from fcshim.config import Config, ModelConfig
from fcshim.constrain.constraint import constrains_document
from fcshim.dispatch import MIN_SIZE, AttemptPlanner, RequestAttempts, report_prompt, run_off_loop
from fcshim.errors import FcshimError, RequestError, release_frames
from fcshim.events import JSON, Error, id_source, secret_source
from fcshim.messages import Request, requested_schema, uses_tools
from fcshim.pipeline.attempt import Batch
from fcshim.pipeline.omissions import OMISSIONS, has_any, media_of
from fcshim.pipeline.response import ClientResponse, response_for
from fcshim.server.client_connection import ClientConnection, PingSchedule
from fcshim.server.relay import Relay, with_model_name
from fcshim.server.relayed_reply import RelayedUsage
from fcshim.server.request_body import split_body
from fcshim.server.request_log import take_logged_body
from fcshim.server.rounds import ChoiceRounds, ToolLoop
from fcshim.server.server_tools import ServerTools
from fcshim.server.store import Store
from fcshim.server.store.client_memory import ClientMemory
from fcshim.upstream.capabilities import Capabilities

_STREAM_HEADERS = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
_RETRY_HEADERS = ("retry-after", "retry-after-ms")
"""Headers of an upstream's error that tell the client when to retry."""

NewAttempts = Callable[[Request], RequestAttempts]
"""Makes the attempts at one request; called again for each round."""


class RequestHandler:
    """Produces one response for one client; implements `dispatch.ReplySink`.

    With `rounds` (tools run in this proxy, or there are several choices) it sends one upstream request per round.
    """

    def __init__(
        self,
        connection: ClientConnection,
        request: Request,
        *,
        new_attempts: NewAttempts,
        new_response: Callable[[], ClientResponse],
        rounds: ToolLoop | ChoiceRounds | None,
        memory: ClientMemory,
    ) -> None:
        self._connection = connection
        self._request = request
        self._memory = memory
        self._new_attempts = new_attempts
        self._new_response = new_response
        self._rounds = rounds
        self._last_data: bytes | None = None
        self._waits = True  # for the first event of the upstream's reply
        self._progress: PromptProgress | None = None
        observers = connection.observers
        self._on_written = observers.on_written if observers is not None and observers.wants_writes else None

    async def run(self, *, streamed: bool, first_ping: float, ping: float) -> None:
        """Run the request and stream the response. Intervals are in seconds, 0 for no pings.

        Raises `FcshimError` only before the response has started.
        """
        connection, rounds = self._connection, self._rounds
        self._response = self._new_response()
        self._attempts = self._new_attempts(self._request)
        connection.prepare(
            200, [(b"content-type", self._response.content_type.encode()), *(_STREAM_HEADERS if streamed else ())]
        )
        pings = PingSchedule(self._ping, first_interval=first_ping, interval=ping) if streamed else None
        try:
            async with connection.watch_disconnect(pings):
                while True:
                    async with contextlib.aclosing(self._attempts.run(self)) as pauses:
                        async for _ in pauses:
                            await self._flush()
                    if rounds is None or rounds.finished or not await self._begin_round(rounds):
                        break
        except FcshimError as error:
            await self._end_with_error(error)

    @property
    def started(self) -> bool:
        """Whether the response has started, or a round of it has ended."""
        return self._connection.started or (self._rounds is not None and self._rounds.is_committed)

    def restart(self) -> None:
        """Discard the response so far."""
        self._response = self._new_response()
        if self._rounds is not None:
            self._rounds.restart()

    def feed(self, batch: Batch) -> bool:
        """Encode the events of one read and write them; return false if the client reads slowly."""
        data = self._response.feed(batch if self._rounds is None else self._rounds.feed(batch))
        if self._waits:
            self._waits = not batch
            data = data or self._report_progress()
        if self._on_written is not None:
            self._on_written(data)
        return self._connection.write_nowait(data)

    def _report_progress(self) -> bytes:
        """Return a comment with how far the upstream has read the prompt, if that is new and the API has comments."""
        known, self._progress = self._progress, self._attempts.progress
        return b"" if self._progress in {known, None} else self._response.ping(str(self._progress))

    def close(self, batch: Batch) -> None:
        """Encode the last events of one upstream reply, which are written once the earlier ones are sent."""
        data = self._response.feed(batch if self._rounds is None else self._rounds.feed(batch))
        follows = self._rounds is not None and not self._rounds.finished
        self._last_data = data if follows else data + self._response.close()

    async def _flush(self) -> None:
        """Wait until the data is sent; end the response after the last data, unless another round follows."""
        data, self._last_data = self._last_data, None
        if data is not None and (self._rounds is None or self._rounds.finished):
            await self._end(data)
            return
        await self._connection.drain()
        await self._connection.write(data or b"")

    async def _end(self, data: bytes) -> None:
        """Store what the client may refer to, then end the response."""
        await self._memory.flush()
        await self._connection.end(data)

    async def _begin_round(self, rounds: ToolLoop | ChoiceRounds) -> bool:
        """Begin another round and return true, or end the response."""
        self._connection.committed = True
        events = await rounds.next_round()
        if rounds.finished:
            await self._end(self._response.feed(events) + self._response.close())
            return False
        await self._connection.write(self._response.feed(events))
        self._attempts, self._waits = self._new_attempts(rounds.request), True
        return True

    async def _end_with_error(self, error: FcshimError) -> None:
        """End the response with an error event; raise `error` if the response has not started."""
        events = self._attempts.fail(error)
        if self._rounds is not None:
            events = self._rounds.fail(events, error)
        if not self._response.started and (not events or isinstance(events[-1][1], Error)):
            refusal = self._attempts.refusal
            if refusal is not None:
                values = [(name.encode(), refusal.header(name).encode("latin-1")) for name in _RETRY_HEADERS]
                self._connection.extra_headers += [pair for pair in values if pair[1]]
            raise error
        await self._end(self._response.feed(events) + self._response.close())
        release_frames(error)

    def _ping(self) -> bytes:
        return self._response.ping()


logger = logging.getLogger("fcshim.server")

_TRACE_HEADERS = {b"traceparent", b"tracestate"}
_CODEC_HEADERS = {b"content-type", b"accept"}
"""Headers that `Upstream.send_request` sets itself."""


@dataclass(frozen=True, slots=True)
class _RequestContext:
    """One request as its client sent it, and what is needed to ask the model. `codec` is the client's."""

    connection: ClientConnection
    codec: Codec
    model_config: ModelConfig
    client_request: Request
    memory: ClientMemory
    size: int
    """Bytes of the body."""
    refused: FcshimError | None
    """The error with which the upstream refused the request as the client sent it."""


class ReplyEndpoints:
    """Serves the reply endpoints of every client API, with one upstream."""

    def __init__(
        self,
        config: Config,
        capabilities: Capabilities,
        relay: Relay,
        store: Store,
        server_tools: ServerTools,
        id_sources: Mapping[str, Callable[[], str]],
    ) -> None:
        self._config = config
        self._capabilities = capabilities
        self._upstream_kind = capabilities.upstream.kind
        self._codec = capabilities.upstream.kind.codec
        self._store = store
        self._relay = relay
        self._server_tools = server_tools
        self._id_sources = id_sources  # by prefix
        self._general = config.merged_with()
        """The settings of a model that has none of its own."""
        kind, tools = capabilities.upstream.kind, self._general.tools
        stands_alone = config.mcp is None and not config.upstreams
        self._may_store_replies = kind.allows_verbatim and tools != "prompt" and stands_alone

    async def serve(self, connection: ClientConnection, route: RouteMatch) -> None:
        """Serve one request. Raises `FcshimError` only before the response has started."""
        codec = route.api.codec
        body = await connection.body(self._config.max_body)
        take_logged_body(body)
        fields = body if len(body) < MIN_SIZE else await split_body(body, codec.field_rules)
        memory = ClientMemory(self._store, connection)
        stored_upstream = self._upstream_stores_replies(route)
        target = route.make_target(connection.path, connection.query, stored_upstream=stored_upstream)
        if route.api.recaller is not None:
            request = await memory.read(route.api.recaller.recall_request(fields, target), len(body))
        else:
            request = await run_off_loop(len(body), functools.partial(codec.decode_request, fields, target))
        del fields  # a reply may take minutes
        model = await self._settings_for(connection, request, codec)
        if connection.observers is not None:
            await run_off_loop(len(body), functools.partial(connection.observers.on_request, request, body, model))
        _check_tool_count(len(request.tools), model.max_tools, self._config.tool_limit)
        upstream_request, tool_loop = request, None
        if not request.suffix and (request.provider_tools or self._server_tools.has_servers):
            upstream_request, tool_loop = await self._server_tools.add_to_request(request, connection, memory)
        if tool_loop is not None and connection.observers is not None:
            await run_off_loop(MIN_SIZE, functools.partial(connection.observers.on_tools, upstream_request.tools))
        refused = None
        if upstream_request is request and await self._is_relayed(request, model, route):
            relayed = functools.partial(_relayed_body, codec, request, body, model.upstream_model)
            content = await run_off_loop(len(body), relayed)
            refused = await self._forward(connection, request, model, content, stored=bool(route.api.recaller))
            if refused is None:
                return
        if not request.messages:
            data = codec.encode_reply(request, self._new_identity(request, codec, memory), ())
            await memory.flush()
            await connection.respond(200, data)
        else:
            if model.dialect_reason is None:  # the upstream refused the request as it was, or tools were added to it
                model = await self._resolve(model, request)
            context = _RequestContext(connection, codec, model, request, memory, len(body), refused)
            await self._new_handler(context, upstream_request, tool_loop).run(
                streamed=request.stream, first_ping=self._config.first_ping, ping=self._config.ping
            )

    async def _settings_for(self, connection: ClientConnection, request: Request, codec: Codec) -> ModelConfig:
        """Return the settings of the model, resolved where they are certain to be needed: relayed text needs none."""
        model = self._config.for_model(request.model) if self._config.models else self._general
        if connection.dialect:  # the one in which the inspector sends a request again
            model = msgspec.structs.replace(model, dialect=connection.dialect, tools="prompt")
        if uses_tools(request) or codec is not self._codec:
            model = await self._resolve(model, request)
        return model

    async def _resolve(self, model: ModelConfig, request: Request) -> ModelConfig:
        """Return the settings with everything automatic decided by evidence about the model that answers."""
        return await self._capabilities.models.resolve(model, model.upstream_model or request.model)

    async def _is_relayed(self, request: Request, model: ModelConfig, route: RouteMatch) -> bool:
        """Return whether the upstream gets the request unchanged: it speaks the API, and nothing has to be emulated."""
        if route.api.codec is not self._codec or (model.upstream_model and "model" in route.path_params):
            return False
        if route.api.recaller:
            return self._upstream_stores_replies(route)
        omissions = self._capabilities.omissions(model.upstream_model or request.model)
        if omissions and has_any(request, omissions):
            return False
        if not uses_tools(request):
            if requested_schema(request) is None or request.extra.get("logprobs"):
                return True  # only the upstream's own reply has log probabilities
            return not constrains_document((await self._capabilities.backend(request)).form, request)
        upstream_request = msgspec.structs.replace(request, model=model.upstream_model or request.model)
        return self._upstream_kind.allows_verbatim and self._capabilities.tools.uses_native(upstream_request, model)

    async def _forward(
        self, connection: ClientConnection, request: Request, model: ModelConfig, content: bytes, *, stored: bool
    ) -> FcshimError | None:
        """Relay a request; return an error of the upstream that may refuse a part of it, which can be left out.

        `stored`: later requests refer to the reply, so only the upstream's own will do, be it an error.
        """
        name = model.upstream_model or request.model
        is_handled = None if stored else functools.partial(self._refuses_part, request, name)
        complete_reply = None if request.stream else self._codec.relayed_reply
        usage = RelayedUsage()
        refused = await self._relay.forward(connection, content, is_handled, complete_reply, usage)
        if connection.status == 200:
            self._capabilities.record_media(name, media_of(request))
            if not (stored and _refers_to_stored(request.verbatim.get(self._codec.name, {}))):
                sent = msgspec.structs.replace(request, model=name)
                planner = AttemptPlanner(sent, model, self._capabilities, None, buffered=False, size=len(content))
                await report_prompt(sent, usage.read(self._codec.decoder()), planner, connection.observers)
        return refused

    def _refuses_part(self, request: Request, model: str, error: FcshimError) -> bool:
        """Return whether an error of the upstream may refuse a part of the request that can be left out.

        Not if the client wants log probabilities: only the upstream's own reply has them.
        """
        if request.extra.get("logprobs") or not request.messages:
            return False
        return has_any(request, [each for each in OMISSIONS if self._capabilities.may_refuse(model, each, error)])

    def _upstream_stores_replies(self, route: RouteMatch) -> bool:
        """Return whether the upstream stores the replies that later requests refer to.

        That works only if it generates all of them, so not where the proxy answers some itself.
        """
        return self._may_store_replies and route.api.codec is self._codec

    def _new_identity(self, request: Request, codec: Codec, memory: ClientMemory) -> ReplyIdentity:
        started_at = time.monotonic()
        return ReplyIdentity(
            id=self._id_sources[codec.reply_prefix](),
            created=int(time.time()),
            model=request.model,
            clock=lambda: time.monotonic() - started_at,
            reply_store=memory,
        )

    def _new_handler(
        self, context: _RequestContext, request: Request, rounds: ToolLoop | ChoiceRounds | None
    ) -> RequestHandler:
        """Return what asks the model: in several rounds where tools run here or several choices are asked for."""
        if request.provider_tools:
            request = self._server_tools.leave_out_provider_tools(request)
        if rounds is None and request.n > 1:
            rounds = ChoiceRounds(request, together=self._codec is OPENAI_CHAT)
        wanted = context.client_request
        identity = self._new_identity(wanted, context.codec, context.memory)
        return RequestHandler(
            context.connection,
            request if rounds is None else rounds.request,
            new_attempts=functools.partial(self._new_attempts, context),
            new_response=functools.partial(
                response_for, wanted, identity, context.codec, max_reply=self._config.max_reply
            ),
            rounds=rounds,
            memory=context.memory,
        )

    def _new_attempts(self, context: _RequestContext, request: Request) -> RequestAttempts:
        model = context.model_config
        upstream_request = msgspec.structs.replace(request, model=model.upstream_model or request.model)
        planner = AttemptPlanner(
            upstream_request,
            model,
            self._capabilities,
            self._id_sources[context.codec.call_prefix],
            buffered=not context.client_request.stream,
            translated=context.codec is not self._codec,
            size=context.size,
        )
        connection = context.connection
        if context.codec is self._codec:
            forwarded = self._relay.forwarded_headers(connection.headers)
            headers = [pair for pair in forwarded if pair[0] not in _CODEC_HEADERS]
        else:  # headers of another API mean nothing to the upstream, except the trace and the key
            headers = [pair for pair in connection.headers if pair[0] in _TRACE_HEADERS]
            headers += self._relay.translated_headers(connection)
        return RequestAttempts(planner, headers, context.refused, connection.observers)


def new_id_sources() -> dict[str, Callable[[], str]]:
    """Make the sources of call ids and reply ids of every client API, by prefix."""
    return {
        **{codec.call_prefix: id_source(codec.call_prefix) for codec in CODECS.values()},
        # Clients of the Responses API can fetch a stored reply by its id, so ids must not be guessable.
        **{codec.reply_prefix: secret_source(codec.reply_prefix) for codec in CODECS.values()},
    }


def _relayed_body(codec: Codec, request: Request, body: bytes, model: str | None) -> bytes:
    return with_model_name(body if uses_tools(request) else codec.relayed_body(body), model)


def _check_tool_count(count: int, max_tools: int, limit: int) -> None:
    """Raise `RequestError` if the model would get more tools than the limit, by default that of OpenAI's API."""
    if min(count, max_tools or count) > limit:
        raise RequestError(
            f"tools: at most {limit} are allowed, got {count}; --max-tools describes only the most relevant, "
            "--tool-limit allows more",
            param="tools",
        )


def _refers_to_stored(source: dict[str, JSON]) -> bool:
    """Return whether a request of the Responses API names text that only the upstream has."""
    items = source.get("input")
    references = (
        (item for item in items if isinstance(item, dict) and item.keys() <= {"id", "type"})
        if isinstance(items, list)
        else ()
    )
    return any(source.get(name) for name in ("previous_response_id", "conversation", "prompt")) or any(references)
