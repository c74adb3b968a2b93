"""Connections to a real llama-server, which closes them after each stream although its headers say keep-alive."""

import asyncio
import json

from fcshim.codecs.base import UpstreamRequest
from fcshim.upstream import Upstream
from tests.engine.llama_server import LlamaServer


async def ask(upstream: Upstream, text: str) -> bytes:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 3, "stream": True}
    async with upstream.send_request(UpstreamRequest("/chat/completions", json.dumps(body).encode())) as reply:
        return b"".join([piece async for piece in reply])


async def test_no_request_is_lost_on_a_connection_that_the_server_closed(random_server: LlamaServer) -> None:
    """Requests follow at once, before the end of the last connection is noticed, and also run in parallel."""

    async def several(upstream: Upstream, name: int) -> list[bytes]:
        return [await ask(upstream, f"{name} {turn}") for turn in range(20)]

    async with Upstream(random_server.url) as upstream:
        alone = await several(upstream, 0)
        side_by_side = await asyncio.gather(several(upstream, 1), several(upstream, 2))

    for replies in (alone, *side_by_side):
        assert all(reply.endswith(b"data: [DONE]\n\n") for reply in replies)
