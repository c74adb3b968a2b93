"""Connects to an endpoint: is it reachable, which models does it list, which backend is it.

Rule: an error about an address, a key or a path is one sentence that also says what to do about it.
"""

import contextlib
from dataclasses import dataclass

from fcshim.codecs.upstream_errors import decode_json, excerpt, find_error_message
from fcshim.codecs.upstreams import UPSTREAMS, UpstreamKind
from fcshim.config import Secret
from fcshim.errors import KEY_ADVICE, UpstreamError
from fcshim.pipeline.backends import GENERIC, backend_of_api
from fcshim.upstream import Timeouts, Upstream, api_url, root_url
from fcshim.upstream.detection import Detection, detect

_NON_CHAT_NAMES = ("embed", "rerank", "whisper")
"""Parts of the names of models that are not chat models."""


@dataclass(frozen=True, slots=True)
class EndpointInfo:
    """The API, backend and models of an endpoint. `url` is its address for the API `kind`, `model` the chosen one."""

    url: str
    kind: UpstreamKind
    detection: Detection
    model_names: tuple[str, ...]
    model: str


async def connect(url: str, api: str | None, model: str, key: Secret | None, timeouts: Timeouts) -> EndpointInfo:
    """Detect the backend, and choose the API and the model unless they are given.

    The API is the preferred one of the backend, the model the first chat model that is listed. Raises `UpstreamError`
    with a message that says what to do.
    """
    kind = UPSTREAMS[api or "openai"]
    async with Upstream(url, key=key, timeouts=timeouts, kind=kind) as upstream:
        names = await _fetch_model_names(upstream, needed=not model)
        if kind.full_openai_api and not kind.allows_verbatim:
            detection = await detect(upstream)
        else:
            detection = Detection(backend_of_api(kind.name) or GENERIC, f"the API is said to be {kind.name}")
    chosen_kind = kind if api else UPSTREAMS[detection.backend.api]
    chosen_model = model or next(
        (name for name in names if not any(word in name.lower() for word in _NON_CHAT_NAMES)), names[0]
    )
    return EndpointInfo(
        # `url` may end with the version suffix of the API that was tried first.
        url if chosen_kind.version == kind.version else root_url(url),
        chosen_kind,
        detection,
        tuple(names),
        chosen_model,
    )


async def _fetch_model_names(upstream: Upstream, *, needed: bool) -> list[str]:
    try:
        status, body = await upstream.fetch("GET", upstream.kind.codec.models_path)
    except UpstreamError as error:
        message = f"{upstream.url}: {error.message}. Is the server running, and is this its address?"
        raise UpstreamError(message, status=error.status, kind=error.kind) from error
    names = upstream.kind.codec.decode_models(body) if status == 200 else []
    if (needed and not names) or status in (401, 403):
        raise UpstreamError(await _explain_failure(upstream, status, body))
    return names


async def _explain_failure(upstream: Upstream, status: int, body: bytes) -> str:
    """Return a message that says why there is no list of models, and what to do."""
    url = upstream.url + upstream.kind.codec.models_path
    if status in (401, 403):
        return f"{url} rejects the key (HTTP {status}): {KEY_ADVICE}"
    document = decode_json(body)
    if status == 200 and isinstance(document, dict) and [] in (document.get("data"), document.get("models")):
        return f"{url} lists no models: load one there, or name one with --model"
    reply = find_error_message(document) or excerpt(body) or "nothing"
    problem = f"{url} should list models, but answers {reply} (HTTP {status})"
    if status in (429, 503):
        return f"{problem}. It is not ready: try again later"
    origin = "/".join(upstream.url.split("/")[:3])
    if upstream.url != api_url(origin, upstream.kind.version) and await _lists_models(origin, upstream.kind):
        return f"{problem}. {origin} does list models: use that address"
    return f"{problem}. Is this the address of the API? Name the API with --upstream-api, or a model with --model"


async def _lists_models(origin: str, kind: UpstreamKind) -> bool:
    with contextlib.suppress(UpstreamError):
        async with Upstream(origin, kind=kind) as upstream:
            status, body = await upstream.fetch("GET", kind.codec.models_path)
            return status == 200 and bool(kind.codec.decode_models(body))
    return False
