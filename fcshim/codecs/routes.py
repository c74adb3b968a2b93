"""The table of client APIs and their routes.

Rule: an API is a row of `APIS`; its paths and headers are defined only there. A route that requires a header comes
before one for the same path that does not.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fcshim.codecs.anthropic import ANTHROPIC
from fcshim.codecs.base import (
    Codec,
    LocalResponder,
    ModelCatalogue,
    ModelDescriber,
    RequestRecaller,
    RequestTarget,
    TokenCounter,
)
from fcshim.codecs.gemini import GEMINI
from fcshim.codecs.json_text import write_json
from fcshim.codecs.model_info import ModelInfo, find_model
from fcshim.codecs.ollama import OLLAMA
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.openai_responses import OPENAI_RESPONSES
from fcshim.codecs.reply_store import DocumentStore
from fcshim.events import JSON


class LmStudio:
    """Describes models at `/api/v0/models`; its clients chat by OpenAI's API below the same prefix."""

    def described_name(self, target: RequestTarget, body: bytes) -> str | None:  # noqa: ARG002  # contract
        """Return the name in the path; None for the list."""
        return target.path_params.get("model")

    def describe(self, target: RequestTarget, body: bytes, models: Sequence[ModelInfo]) -> bytes:
        """Write the list, or the one model that is asked for. Raises `RequestError`."""
        name = self.described_name(target, body)
        if name is not None:
            return write_json(_entry(find_model(models, name)))
        return write_json({"object": "list", "data": [_entry(model) for model in models]})


def _entry(model: ModelInfo) -> dict[str, JSON]:
    length = {"max_context_length": model.context_length, "loaded_context_length": model.context_length}
    return {
        "id": model.name,
        "object": "model",
        "type": "vlm" if model.vision else "llm",
        "publisher": "fcshim",
        "arch": "llama",
        "compatibility_type": "gguf",
        "quantization": "",
        "state": "loaded",
        **(length if model.context_length else {}),
        "capabilities": ["tool_use"],  # with fcshim, every model calls tools
    }


LM_STUDIO = LmStudio()


Operation = Literal["reply", "count", "models", "model", "describe", "embed", "local"]
"""The operation that a route serves: a reply of the model; a token count (`Api.counter`); the list of models or one
model (`Api.catalogue`); descriptions of models (`Api.describer`); embeddings; a response that the codec makes
(`Api.local`)."""


@dataclass(frozen=True, slots=True)
class Route:
    """One route. A `{name}` in `path` matches one or more characters; with `headers`, one of them must be present."""

    method: str
    path: str
    operation: Operation
    headers: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Api:
    """One API. Where no route matches, `prefixes` and `headers` identify the client's API, for the form of the error.

    `recaller`: clients refer to earlier replies by id, so that all replies have to come from the same server.
    """

    codec: Codec
    routes: tuple[Route, ...]
    prefixes: tuple[str, ...] = ()
    headers: tuple[bytes, ...] = ()
    counter: TokenCounter | None = None
    catalogue: ModelCatalogue | None = None
    describer: ModelDescriber | None = None
    local: LocalResponder | None = None
    recaller: RequestRecaller | None = None


@dataclass(frozen=True, slots=True)
class RouteMatch:
    """The API and the operation at a path; `operation` is None where the path or the method is not served.

    `allowed_methods` are the methods of the path where only the method did not match.
    """

    api: Api
    operation: Operation | None
    path_params: dict[str, str]
    allowed_methods: tuple[str, ...]

    def make_target(
        self, path: str, query: bytes, reply_store: DocumentStore | None = None, *, stored_upstream: bool = False
    ) -> RequestTarget:
        """Create the request target for the codec, with the store of earlier replies."""
        return RequestTarget(path, query.decode("latin-1"), self.path_params, reply_store, stored_upstream)


OPENAI = Api(
    OPENAI_CHAT,
    (
        Route("POST", "/v1/chat/completions", "reply"),
        Route("POST", "/api/v0/chat/completions", "reply"),  # LM Studio, as the routes below
        Route("GET", "/api/v0/models", "describe"),
        Route("GET", "/api/v0/models/{model}", "describe"),
    ),
    prefixes=("/api/v0/",),
    describer=LM_STUDIO,
)
"""Other paths below `/v1` are relayed to upstreams of this API; unknown clients get errors in its form."""

_ANTHROPIC_CLIENT = (b"anthropic-version",)
_GOOGLE_CLIENT = (b"x-goog-api-key",)

APIS: tuple[Api, ...] = (
    OPENAI,
    Api(
        OPENAI_RESPONSES,
        (
            Route("POST", "/v1/responses", "reply"),
            Route("POST", "/v1/responses/compact", "reply"),
            Route("POST", "/v1/responses/input_tokens", "count"),
            Route("GET", "/v1/responses/{response}/input_items", "local"),
            Route("GET", "/v1/responses/{response}", "local"),
            Route("DELETE", "/v1/responses/{response}", "local"),
        ),
        prefixes=("/v1/responses",),
        counter=OPENAI_RESPONSES,
        local=OPENAI_RESPONSES,
        recaller=OPENAI_RESPONSES,
    ),
    Api(
        OLLAMA,
        (
            Route("POST", "/api/chat", "reply"),
            Route("POST", "/api/generate", "reply"),
            Route("POST", "/api/embed", "embed"),
            Route("POST", "/api/embeddings", "embed"),
            Route("GET", "/api/tags", "describe"),
            Route("HEAD", "/api/tags", "describe"),
            Route("GET", "/api/ps", "describe"),
            Route("POST", "/api/show", "describe"),
            Route("GET", "/api/version", "local"),
            Route("HEAD", "/api/version", "local"),
        ),
        prefixes=("/api/",),
        describer=OLLAMA,
        local=OLLAMA,
    ),
    Api(
        ANTHROPIC,
        (
            Route("POST", "/v1/messages", "reply"),
            Route("POST", "/v1/messages/count_tokens", "count"),
            Route("GET", "/v1/models", "models", _ANTHROPIC_CLIENT),
            Route("GET", "/v1/models/{model}", "model", _ANTHROPIC_CLIENT),
        ),
        prefixes=("/v1/messages",),
        headers=_ANTHROPIC_CLIENT,
        counter=ANTHROPIC,
        catalogue=ANTHROPIC,
    ),
    Api(
        GEMINI,
        (
            Route("POST", "/{version}/models/{model}:generateContent", "reply"),
            Route("POST", "/{version}/models/{model}:streamGenerateContent", "reply"),
            Route("POST", "/{version}/models/{model}:countTokens", "count"),
            Route("POST", "/{version}/projects/{project}/models/{model}:generateContent", "reply"),  # Vertex AI
            Route("POST", "/{version}/projects/{project}/models/{model}:streamGenerateContent", "reply"),
            Route("POST", "/{version}/projects/{project}/models/{model}:countTokens", "count"),
            Route("POST", "/models/{model}:generateContent", "reply"),  # LiteLLM, given an address without a version
            Route("POST", "/models/{model}:streamGenerateContent", "reply"),
            Route("POST", "/models/{model}:countTokens", "count"),
            Route("GET", "/v1/models", "models", _GOOGLE_CLIENT),
            Route("GET", "/v1/models/{model}", "model", _GOOGLE_CLIENT),
            Route("GET", "/{beta}/models", "models"),
            Route("GET", "/{beta}/models/{model}", "model"),
        ),
        prefixes=("/v1beta", "/v1alpha", "/models/", "/v1/projects/"),
        headers=_GOOGLE_CLIENT,
        counter=GEMINI,
        catalogue=GEMINI,
    ),
)

OPENAI_MODEL_LISTS = Api(
    OPENAI_CHAT,
    (Route("GET", "/v1/models", "models"), Route("GET", "/v1/models/{model}", "model")),
    catalogue=OPENAI_CHAT,
)
"""OpenAI's model endpoints, served here where the upstream does not have them."""

CODECS: dict[str, Codec] = {api.codec.name: api.codec for api in APIS}
"""The codecs by name."""


_PARAM_PATTERNS = {
    "version": "v1|v1beta|v1beta1|v1alpha",
    "beta": "v1beta|v1beta1|v1alpha",
    "response": "(?!(?:compact|input_tokens)$).+",
}
"""Patterns of parameters: the versions of Google's API, and no endpoint as id of a response. Others match anything."""


def _compile_path(path: str) -> re.Pattern[str] | None:
    """Compile a route's path to a pattern with a group for each parameter; None for a path without parameters."""
    if "{" not in path:
        return None
    return re.compile(
        re.sub(r"\\{(\w+)\\}", lambda match: f"(?P<{match[1]}>{_PARAM_PATTERNS.get(match[1], '.+')})", re.escape(path))
    )


_CompiledRoutes = list[tuple[re.Pattern[str] | None, Route, Api]]


def _compile_routes(*apis: Api) -> _CompiledRoutes:
    return [(_compile_path(route.path), route, api) for api in apis for route in api.routes]


_ROUTES = _compile_routes(*APIS)

_DELETED_RESOURCES = (
    "models/*", "files/*", "responses/*", "chat/completions/*", "assistants/*", "threads/*", "threads/*/messages/*",
    "conversations/*", "conversations/*/items/*", "vector_stores/*", "vector_stores/*/files/*", "videos/*",
    "containers/*", "containers/*/files/*", "evals/*", "evals/*/runs/*",
    "fine_tuning/checkpoints/*/permissions/*",
)  # fmt: skip
"""What OpenAI's API deletes, by paths below its version; `*` is one segment. It has no PUT and no PATCH."""
_DELETED_PATH = re.compile("|".join(re.escape(path).replace(r"\*", "[^/]+") for path in _DELETED_RESOURCES))


def relayed_methods(encoded_path: str) -> tuple[str, ...]:
    """Return the methods that may be relayed at a path of OpenAI's API that has no route of its own.

    Others could reach what the server behind the upstream's address administers with them.
    """
    deletes = _DELETED_PATH.fullmatch(encoded_path.removeprefix("/v1/"))
    return ("GET", "HEAD", "POST", *(("DELETE",) if deletes else ()))


_MODEL_LIST_ROUTES = _compile_routes(OPENAI_MODEL_LISTS)
_ALL_ROUTES = _ROUTES + _MODEL_LIST_ROUTES


def find_route(method: str, path: str, headers: Collection[bytes] = (), *, model_lists: bool = False) -> RouteMatch:
    """Find the route of a request; `headers` are the names of its headers, in lower case.

    `model_lists`: also serve OpenAI's model endpoints.
    """
    others: list[tuple[str, Api]] = []
    for params, route, api in _matching_routes(path, headers, _ALL_ROUTES if model_lists else _ROUTES):
        if route.method == method:
            return RouteMatch(api, route.operation, params, ())
        others.append((route.method, api))
    if others:
        return RouteMatch(others[0][1], None, {}, tuple(dict.fromkeys(other for other, _ in others)))
    # The API of a client whose path is not served follows from its prefix or headers.
    for api in APIS:
        if path.startswith(api.prefixes or ("\0",)) or any(name in headers for name in api.headers):
            return RouteMatch(api, None, {}, ())
    return RouteMatch(OPENAI, None, {}, ())


def expected_path(path: str) -> str:
    """Return the path that a client with a wrong base URL wants, without or with `/v1`; empty if none is served."""
    without = path.removeprefix("/v1")
    candidates = (without, f"/v1{path}") if without != path else (f"/v1{path}",)
    return next((each for each in candidates if any(_matching_routes(each, None, _ALL_ROUTES))), "")


def _matching_routes(
    path: str, headers: Collection[bytes] | None, routes: _CompiledRoutes
) -> Iterator[tuple[dict[str, str], Route, Api]]:
    """Yield the routes of a path, each with its parameters; without `headers`, also those that need some."""
    for pattern, route, api in routes:
        if route.headers and headers is not None and not any(name in headers for name in route.headers):
            continue
        if pattern is None:
            if path == route.path:
                yield {}, route, api
        elif match := pattern.fullmatch(path):
            yield match.groupdict(), route, api
