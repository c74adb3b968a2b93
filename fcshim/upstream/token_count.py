"""Lets the upstream count the tokens of a request, where it can: llama-server, and what has its endpoints."""

import msgspec

from fcshim.errors import UpstreamError
from fcshim.events import JSON
from fcshim.messages import Request
from fcshim.upstream.endpoint import Upstream


async def count_exactly(request: Request, upstream: Upstream) -> int | None:
    """Count the tokens of a request as the upstream gets it; None if it cannot."""
    if not upstream.kind.full_openai_api:
        return None
    upstream_request = upstream.kind.codec.encode_request(request)
    try:
        count = await _fetch_field(
            upstream, upstream_request.path + "/input_tokens", upstream_request.body, "input_tokens"
        )
        return count if isinstance(count, int) else await _count_by_template(upstream, upstream_request.body)
    except UpstreamError:
        return None


async def _count_by_template(upstream: Upstream, body: bytes) -> int | None:
    """Render and tokenize the prompt with llama-server releases that have no `input_tokens` endpoint."""
    prompt = await _fetch_field(upstream, "//apply-template", body, "prompt")
    if not isinstance(prompt, str):
        return None
    fields = {"content": prompt, "add_special": True, "parse_special": True}
    tokens = await _fetch_field(upstream, "//tokenize", msgspec.json.encode(fields), "tokens")
    return len(tokens) if isinstance(tokens, list) else None


async def _fetch_field(upstream: Upstream, path: str, body: bytes, field: str) -> JSON:
    status, response = await upstream.fetch("POST", path, body)
    try:
        value = msgspec.json.decode(response) if status == 200 else None
    except (ValueError, RecursionError):
        return None
    return value.get(field) if isinstance(value, dict) else None
