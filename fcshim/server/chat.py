"""The endpoints that give a reply, of every client API.

Rule: what needs no shim is relayed verbatim where the upstream speaks the client's API.
Neighbours: `conversation` has the rest answered, `relay` passes on; the settings say what stands between.
"""

import logging
import time
from dataclasses import dataclass

import msgspec

from fcshim.answer import answer_for
from fcshim.asking import Question, is_native
from fcshim.codecs.base import Codec, ReplyIdentity
from fcshim.codecs.reply_store import ReplyStore
from fcshim.codecs.routes import CODECS, RouteMatch
from fcshim.config import Config, ModelConfig
from fcshim.constrain.constraint import is_document_held
from fcshim.constrain.response_format import wanted_document
from fcshim.enforcement import Enforcement
from fcshim.ids import id_source, secret_source
from fcshim.inquiry import Aptitude
from fcshim.messages import Request, uses_tools
from fcshim.server.conversation import Conversation
from fcshim.server.course import Course
from fcshim.server.guard import client_key
from fcshim.server.line import Line
from fcshim.server.own_tools import OwnTools
from fcshim.server.relay import Relay
from fcshim.stages import Making
from fcshim.upstream import Upstream, key_header

logger = logging.getLogger("fcshim.server")

_REPLACED = {b"content-type", b"accept"}


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

    def __init__(self, config: Config, upstream: Upstream, relay: Relay, memory: ReplyStore, own_tools: OwnTools) -> None:
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

    async def serve(self, line: Line, found: RouteMatch) -> None:
        """Answer one request. Raises `FcshimError` where nothing has been sent yet."""
        codec = found.api.codec
        body = await line.body(self._config.max_body)
        relayed = self._remembers(found)
        target = found.make_target(line.path, line.query, None if relayed else self._memory, stored_upstream=relayed)
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

    async def _is_relayed(self, request: Request, model: ModelConfig, found: RouteMatch) -> bool:
        """Tell whether the upstream gets the request as it came: it speaks the API, and there is nothing to do."""
        if found.api.codec is not self._codec or (model.upstream_model and "model" in found.path_params):
            return False
        if found.api.stateful:
            return self._remembers(found)
        if not uses_tools(request):
            return not await self._is_document_held(request)
        there = msgspec.structs.replace(request, model=model.upstream_model or request.model)
        return self._kind.allows_verbatim and await is_native(there, model.tools, self.aptitude)

    async def _is_document_held(self, request: Request) -> bool:
        """Tell whether a reply without calls is held to its format here; probabilities are only to be had relayed."""
        if wanted_document(request) is None or request.extra.get("logprobs"):
            return False
        return is_document_held((await self._enforcement.server(request)).form, request)

    def _remembers(self, found: RouteMatch) -> bool:
        """Tell whether earlier replies are the upstream's to remember: it gives them all."""
        there = found.api.codec is self._codec and self._kind.allows_verbatim
        return there and self._config.tools != "prompt" and self._config.mcp is None

    def _identity(self, request: Request, codec: Codec) -> ReplyIdentity:
        began = time.monotonic()
        return ReplyIdentity(
            id=self._new_id[codec.reply_prefix](),
            created=int(time.time()),
            model=request.model,
            clock=lambda: time.monotonic() - began,
            reply_store=self._memory,
        )

    async def _converse(self, errand: _Errand) -> None:
        request = errand.request
        identity = self._identity(request, errand.codec)
        conversation = Conversation(
            errand.line,
            self._upstream,
            self._codec,
            ask=lambda asked: self._question(errand, asked),
            new_answer=lambda: answer_for(request, identity, errand.codec, max_reply=self._config.max_reply),
            headers=self._headers(errand.line, errand.codec),
            course=errand.course,
        )
        times = {"first_ping": self._config.first_ping, "ping": self._config.ping}
        await conversation.hold(errand.asked, streamed=request.stream, **times)

    def _question(self, errand: _Errand, request: Request) -> Question:
        model = errand.model
        style = "" if errand.codec is not self._codec else request.style
        asked = msgspec.structs.replace(request, model=model.upstream_model or request.model, style=style)

        make = Making(
            asked,
            model,
            self._kind,
            self.aptitude,
            self._new_id[errand.codec.call_prefix],
            whole=not errand.request.stream,
            translated=errand.codec is not self._codec,
        )
        return Question(asked, make, tools=model.tools, aptitude=self.aptitude, enforcement=self._enforcement)

    def _headers(self, line: Line, codec: Codec) -> list[tuple[bytes, bytes]]:
        """Give the client's headers that the upstream may see; those of another API mean nothing there but the key."""
        if codec is self._codec:
            return [pair for pair in self._relay.forwarded(line.headers) if pair[0] not in _REPLACED]
        key = client_key(line.headers, line.query)
        if not key or not self._config.forward_client_key or self._config.upstream_key is not None:
            return []
        return [key_header(self._kind, key)]


def renamed(body: bytes, model: str | None) -> bytes:
    """Give the request body with another model name; every other byte of a value stays as it is."""
    if model is None:
        return body
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**fields, "model": model})
