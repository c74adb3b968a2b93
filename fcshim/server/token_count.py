"""How many tokens a request has, asked of the upstream.

Rule: an engine counts what it would be sent, in the ways that engines offer; a failure is no error but the next way,
and at last an estimate.
Neighbours: `desk` answers clients with it, `exchange.estimate_usage` guesses.
"""

import msgspec

from fcshim.errors import UpstreamError
from fcshim.events import JSON
from fcshim.exchange import estimate_usage
from fcshim.messages import Request
from fcshim.upstream import Upstream


async def count_tokens(request: Request, upstream: Upstream) -> tuple[int, bool]:
    """Count the tokens of a request as the upstream gets it; tell whether the number is exact."""
    counted = await _count_upstream(request, upstream) if upstream.kind.full_openai_api else None
    return (estimate_usage(request, 0).input_tokens, False) if counted is None else (counted, True)


async def _count_upstream(request: Request, upstream: Upstream) -> int | None:
    outgoing = upstream.kind.codec.encode_request(request)
    try:
        counted = await _fetch_field(upstream, outgoing.path + "/input_tokens", outgoing.body, "input_tokens")
        return counted if isinstance(counted, int) else await _count_by_template(upstream, outgoing.body)
    except UpstreamError:
        return None


async def _count_by_template(upstream: Upstream, body: bytes) -> int | None:
    """Let llama-server of before `input_tokens` write the prompt and cut it up."""
    prompt = await _fetch_field(upstream, "//apply-template", body, "prompt")
    if not isinstance(prompt, str):
        return None
    question = {"content": prompt, "add_special": True, "parse_special": True}
    tokens = await _fetch_field(upstream, "//tokenize", msgspec.json.encode(question), "tokens")
    return len(tokens) if isinstance(tokens, list) else None


async def _fetch_field(upstream: Upstream, path: str, body: bytes, field: str) -> JSON:
    status, answer = await upstream.fetch("POST", path, body)
    try:
        value = msgspec.json.decode(answer) if status == 200 else None
    except (ValueError, RecursionError):
        return None
    return value.get(field) if isinstance(value, dict) else None
