"""Fetches small pages of an upstream as JSON objects.

Rule: a page that is missing, hangs, or is something else is an empty object.
"""

import asyncio
from urllib.parse import quote

from fcshim.codecs.model_info import read_page
from fcshim.errors import UpstreamError
from fcshim.events import JSON
from fcshim.upstream.detection import PAGE_TIMEOUT
from fcshim.upstream.endpoint import Upstream


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
