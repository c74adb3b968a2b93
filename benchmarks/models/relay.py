"""A relay in front of llama-server that records what the model writes in each reply."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import msgspec

from fcshim.codecs.framing import SSESplitter
from fcshim.demo.asgi import Message, Receive, Send, read_body, send_chunk, send_end, send_start
from fcshim.demo.serving import serve_app

TIMEOUT = 600.0
"""Seconds for a part of a reply: a prompt takes minutes on a busy machine."""


class RawReply(msgspec.Struct, frozen=True, kw_only=True):
    """The model's reply to one attempt."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    calls: str = ""
    """Names and arguments of the calls that the server has parsed itself."""


class _Attempt:
    """What was read of the reply to one attempt."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: list[str] = []
        self._prompt_tokens = 0
        self._completion_tokens = 0

    def feed(self, event: bytes) -> None:
        """Take the data of one server-sent event."""
        if not event.startswith(b"{"):  # the last event is `[DONE]`
            return
        document = msgspec.json.decode(event)
        if isinstance(document.get("content"), str):  # /completion
            self._text.append(document["content"])
        for choice in document.get("choices") or ():
            delta = choice.get("delta") or {}
            self._text.append(delta.get("content") or "")
            for call in delta.get("tool_calls") or ():
                self._calls += (call["function"].get(part) or "" for part in ("name", "arguments"))
        if timings := document.get("timings"):
            self._prompt_tokens = timings.get("prompt_n", 0) + timings.get("cache_n", 0)
            self._completion_tokens = timings.get("predicted_n", 0)

    def reply(self) -> RawReply:
        """Return what was read so far."""
        return RawReply(
            text="".join(self._text),
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            calls="".join(self._calls),
        )


class Relay:
    """The relay for `upstream`, an ASGI application."""

    def __init__(self, client: httpx.AsyncClient, upstream: str) -> None:
        self._client = client
        self._upstream = upstream
        self._attempts: list[_Attempt] = []

    def take(self) -> tuple[RawReply, ...]:
        """Return the replies to all attempts since the last call."""
        attempts, self._attempts = self._attempts, []
        return tuple(attempt.reply() for attempt in attempts)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Relay one HTTP request."""
        if scope["type"] != "http":
            return
        body = await read_body(receive)
        attempt = _Attempt() if body and "completion" in scope["path"] else None
        query = scope["query_string"].decode()
        url = self._upstream + scope["path"] + (f"?{query}" if query else "")
        headers = {"content-type": "application/json"}
        if attempt is not None:
            self._attempts.append(attempt)
        async with self._client.stream(scope["method"], url, content=body, headers=headers) as response:
            await send_start(send, response.status_code, response.headers.get("content-type", "application/json"))
            events = SSESplitter()
            async for data in response.aiter_raw():
                if attempt is not None:
                    for event in events.feed(data):
                        attempt.feed(event)
                await send_chunk(send, data)
            await send_end(send)


@asynccontextmanager
async def serve_relay(upstream: str) -> AsyncIterator[tuple[Relay, str]]:
    """Serve a relay for `upstream`; yield it and its URL."""
    # llama-server closes idle connections, so none is kept.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(timeout=TIMEOUT, trust_env=False, limits=limits) as client:
        relay = Relay(client, upstream.rstrip("/"))
        async with serve_app(relay) as url:
            yield relay, url
