"""Fetches what the upstream reports about one model beyond its list: pages of LM Studio, Ollama and llama-server.

Rule: a page that is missing, hangs or has another format is an empty object. The properties of llama-server are those
of the model that is loaded, so they are asked for only where there is no other; asking for one by name would load it.
"""

import asyncio
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from fcshim.codecs.model_info import ModelInfo, read_entry, read_page, read_props, read_show
from fcshim.errors import UpstreamError
from fcshim.events import JSON
from fcshim.upstream.detection import PAGE_TIMEOUT
from fcshim.upstream.endpoint import Upstream

_Page = tuple[str, str, bytes, Callable[[dict[str, JSON]], ModelInfo]]


async def complete_model(upstream: Upstream, model: ModelInfo, name: str, *, alone: bool) -> ModelInfo:
    """Return `model`, completed from the upstream's pages, where its name is `name`.

    `alone`: the upstream has no other.
    """
    if not (upstream.kind.full_openai_api or upstream.kind.name == "ollama"):
        return model
    pages: list[_Page] = [
        ("GET", f"//api/v0/models/{quote(name, safe='')}", b"", read_entry),
        ("POST", "//api/show", msgspec.json.encode({"model": name}), read_show),
    ]
    if alone:
        pages.append(("GET", "//props", b"", read_props))
    found = await asyncio.gather(*(fetch_object(upstream, method, path, body) for method, path, body, _ in pages))
    for (_, _, _, read), page in zip(pages, found, strict=True):
        model = model.completed_by(read(page))
    return model


async def fetch_object(upstream: Upstream, method: str, path: str, body: bytes = b"") -> dict[str, JSON]:
    """Fetch a JSON object; an empty one if the page is missing, is something else, or does not come in time."""
    try:
        async with asyncio.timeout(PAGE_TIMEOUT):
            status, answer = await upstream.fetch(method, path, body)
    except (UpstreamError, TimeoutError):
        return {}
    return read_page(answer) if status == 200 else {}


def props_path(model: str) -> str:
    """Return the path of llama-server's `/props`. Servers with several models need the name, others ignore it."""
    return f"//props?model={quote(model, safe='')}" if model else "//props"
