"""What clients ask besides replies: which models there are, how many tokens a request has, and the like.

Rule: the upstream is asked where it can tell; where it cannot, a count is an estimate, and a header says so.
Neighbours: `app` sends requests here, `counting` asks the upstream, the codecs write the answers.
"""

import time

import msgspec

from fcshim.codecs.base import ModelCatalogue, TokenCounter, ModelDescriber, RequestTarget
from fcshim.codecs.reply_store import ReplyStore
from fcshim.codecs.routes import RouteMatch
from fcshim.config import Config
from fcshim.errors import RequestError
from fcshim.inquiry import list_models
from fcshim.messages import uses_tools
from fcshim.server.counting import count_tokens
from fcshim.server.line import Line
from fcshim.server.own_tools import OwnTools
from fcshim.stages import shim_for
from fcshim.upstream import Upstream

COUNT_HEADER = b"x-fcshim-count"
"""Tells whether a count of tokens is `exact` or an `estimate`."""


class Desk:
    """Answers every client API's smaller questions in front of one upstream."""

    def __init__(self, config: Config, upstream: Upstream, memory: ReplyStore, own_tools: OwnTools) -> None:
        self._config = config
        self._memory = memory
        self._upstream = upstream
        self._own_tools = own_tools

    async def serve(self, line: Line, found: RouteMatch) -> None:
        """Answer one request. Raises `FcshimError`."""
        body = await line.body(self._config.max_body)
        api = found.api
        async with line.attended():
            if found.operation == "count" and api.counter is not None:
                await self._count(line, found, api.counter, body)
            elif found.operation in ("models", "model") and api.catalogue is not None:
                await self._models(line, found, api.catalogue)
            elif found.operation == "describe" and api.describer is not None:
                await self._describe(line, found, api.describer, body)
            elif api.local is not None:
                await line.answer(200, api.local.respond(line.method, self._target(line, found), body))

    async def _count(self, line: Line, found: RouteMatch, counter: TokenCounter, body: bytes) -> None:
        request, _ = self._own_tools.join(counter.decode_count(body, self._target(line, found)), line)
        model = self._config.for_model(request.model)
        asked = msgspec.structs.replace(request, model=model.upstream_model or request.model, style="")
        sent = shim_for(asked, model).prepare() if uses_tools(asked) and model.tools != "native" else asked
        tokens, exact = await count_tokens(sent, self._upstream)
        await line.answer(200, counter.encode_count(tokens), (COUNT_HEADER, b"exact" if exact else b"estimate"))

    async def _models(self, line: Line, found: RouteMatch, catalogue: ModelCatalogue) -> None:
        names, _ = await list_models(self._upstream)
        now = int(time.time())
        if found.operation == "models":
            await line.answer(200, catalogue.encode_models(names, now))
            return
        name = found.path_params["model"]
        if name not in names and self._config.for_model(name).upstream_model not in names:
            raise RequestError(f"there is no model {name!r:.200}", status=404, kind="not_found")
        await line.answer(200, catalogue.encode_model(name, now, self._target(line, found)))

    async def _describe(self, line: Line, found: RouteMatch, describer: ModelDescriber, body: bytes) -> None:
        names, listed = await list_models(self._upstream)
        await line.answer(200, describer.describe(self._target(line, found), body, names, listed))

    def _target(self, line: Line, found: RouteMatch) -> RequestTarget:
        return found.make_target(line.path, line.query, self._memory)
