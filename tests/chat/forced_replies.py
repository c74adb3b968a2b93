"""A relay in front of a real llama-server that forces each of its replies with a grammar.

Rule: everything but the choice of words is real: the prompt is read, the tokens are sampled, streamed and counted by
the engine. The demo's tiny model could not write such a conversation by itself.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import httpx

from fcshim.demo.asgi import Message, Receive, Send, read_body, send_chunk, send_end, send_start, wait_for_disconnect
from fcshim.demo.serving import serve_app


class ForcedReplies:
    """An ASGI application; `replies` are what the engine writes next, `requests` what it was sent."""

    def __init__(self, client: httpx.AsyncClient, engine: str) -> None:
        self.replies: list[str] = []
        self.requests: list[dict] = []
        self._client = client
        self._engine = engine

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Relay one HTTP request; a client that leaves ends the engine's work."""
        if scope["type"] != "http":
            return
        body = await read_body(receive)
        forced = scope["path"].endswith("/chat/completions")
        if forced:
            body = self._force(body)
        relaying = asyncio.create_task(self._relay(scope["method"], scope["path"], body, send, forced=forced))
        leaving = asyncio.create_task(wait_for_disconnect(receive))
        await asyncio.wait([relaying, leaving], return_when=asyncio.FIRST_COMPLETED)
        for task in (relaying, leaving):
            task.cancel()
        await asyncio.gather(relaying, leaving, return_exceptions=True)

    @property
    def prompts(self) -> list[str]:
        """The conversation of each request, as one text."""
        return ["\n".join(f"{each['role']}: {each['content']}" for each in got["messages"]) for got in self.requests]

    def _force(self, body: bytes) -> bytes:
        request = json.loads(body)
        self.requests.append(request)
        return json.dumps(request | {"grammar": f"root ::= {json.dumps(self.replies[0])}"}).encode()

    async def _relay(self, method: str, path: str, body: bytes, send: Send, *, forced: bool) -> None:
        headers = {"content-type": "application/json"}
        async with self._client.stream(method, self._engine + path, content=body, headers=headers) as response:
            if forced and response.is_success:
                self.replies.pop(0)  # what the engine refused, such as an image, is asked again
            await send_start(send, response.status_code, response.headers.get("content-type", "application/json"))
            async for data in response.aiter_raw():
                await send_chunk(send, data)
            await send_end(send)


@contextlib.asynccontextmanager
async def forced_replies(engine: str) -> AsyncIterator[tuple[str, ForcedReplies]]:
    """Serve the relay; yield its URL, and the relay."""
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        relay = ForcedReplies(client, engine)
        async with serve_app(relay) as url:
            yield url, relay
