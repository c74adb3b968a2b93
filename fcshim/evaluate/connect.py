"""The first contact with an endpoint: is anybody there, which models has it, what kind of server is it.

Rule: whatever is wrong with an address, a key or a path is said in one sentence, with what to do about it.
Neighbours: `detection` tells the kind of server, `doctor` goes on from here.
"""

import contextlib
from dataclasses import dataclass

import msgspec

from fcshim.backends import GENERIC, backend_of_api
from fcshim.codecs.upstream_errors import excerpt, find_error_message
from fcshim.codecs.upstreams import UPSTREAMS, UpstreamKind
from fcshim.config import Secret
from fcshim.detection import Detection, detect
from fcshim.errors import UpstreamError
from fcshim.events import JSON
from fcshim.upstream import Timeouts, Upstream, api_url, root_url

_NON_CHAT_NAMES = ("embed", "rerank", "whisper")
"""What the names of models hold that do not converse."""


@dataclass(frozen=True, slots=True)
class EndpointInfo:
    """What is known of an endpoint before anything was asked of a model; `url` is the address for `kind`."""

    url: str
    kind: UpstreamKind
    detection: Detection
    model_names: tuple[str, ...]
    model: str


async def connect(url: str, api: str | None, model: str, key: Secret | None, timeouts: Timeouts) -> EndpointInfo:
    """Look who is there. Without `api`, the kind of server says which is best spoken; without `model`, the first.

    Raises `UpstreamError` that says what is wrong and what to do.
    """
    kind = UPSTREAMS[api or "openai"]
    async with Upstream(url, key=key, timeouts=timeouts, kind=kind) as upstream:
        names = await _fetch_model_names(upstream, needed=not model)
        if kind.full_openai_api and not kind.allows_verbatim:
            sighting = await detect(upstream)
        else:
            sighting = Detection(backend_of_api(kind.name) or GENERIC, f"the API is said to be {kind.name}")
    spoken = kind if api else UPSTREAMS[sighting.backend.api]
    chosen = model or next(
        (name for name in names if not any(word in name.lower() for word in _NON_CHAT_NAMES)), names[0]
    )
    return EndpointInfo(
        url if spoken.version == kind.version else root_url(url), spoken, sighting, tuple(names), chosen
    )


async def _fetch_model_names(upstream: Upstream, *, needed: bool) -> list[str]:
    try:
        status, body = await upstream.fetch("GET", upstream.kind.codec.models_path)
    except UpstreamError as error:
        message = f"{upstream.url}: {error.message}. Is the server running, and is this its address?"
        raise UpstreamError(message, status=error.status, kind=error.kind) from error
    names = upstream.kind.codec.decode_models(body) if status == 200 else []
    if (needed and not names) or status in (401, 403):
        raise UpstreamError(await _explain_failure(upstream, status, upstream.mask_key(body)))
    return names


async def _explain_failure(upstream: Upstream, status: int, body: bytes) -> str:
    """Say why there is no list of models, and what to do."""
    asked = upstream.url + upstream.kind.codec.models_path
    if status in (401, 403):
        return f"{asked} wants another key (HTTP {status}): give it with --upstream-key or in FCSHIM_UPSTREAM_KEY"
    document = _decode_json(body)
    if status == 200 and isinstance(document, dict) and [] in (document.get("data"), document.get("models")):
        return f"{asked} lists no models: load one there, or name one with --model"
    found = find_error_message(document) or excerpt(body) or "nothing"
    seen = f"{asked} should list models, but answers {found} (HTTP {status})"
    if status in (429, 503):
        return f"{seen}. It is not ready: try again later"
    origin = "/".join(upstream.url.split("/")[:3])
    if upstream.url != api_url(origin, upstream.kind.version) and await _lists_models(origin, upstream.kind):
        return f"{seen}. {origin} does list models: give that address"
    return f"{seen}. Is this the address of the API? --upstream-api says which one it speaks, --model asks for a model"


async def _lists_models(origin: str, kind: UpstreamKind) -> bool:
    with contextlib.suppress(UpstreamError):
        async with Upstream(origin, kind=kind) as upstream:
            status, body = await upstream.fetch("GET", kind.codec.models_path)
            return status == 200 and bool(kind.codec.decode_models(body))
    return False


def _decode_json(body: bytes) -> JSON:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None
