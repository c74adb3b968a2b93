"""A relay in front of llama-server that records each request and the text of its reply, chunk by chunk."""

from dataclasses import dataclass, field

import httpx
import msgspec

from fcshim.codecs.framing import SSESplitter
from fcshim.demo.asgi import Message, Receive, Send, read_body, send_chunk, send_end, send_start
from fcshim.events import JSON


@dataclass(slots=True)
class Attempt:
    """One request to the model: its body, and the chunks of text of its reply."""

    body: dict[str, JSON]
    chunks: list[str] = field(default_factory=list)
    calls: list[JSON] = field(default_factory=list)
    """Deltas of calls that the server has parsed itself."""
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Relay:
    """The relay for `upstream`, an ASGI application. `attempts` are those since the last `take`."""

    def __init__(self, client: httpx.AsyncClient, upstream: str) -> None:
        self._client = client
        self._upstream = upstream
        self._attempts: list[Attempt] = []

    def take(self) -> list[Attempt]:
        """Return the attempts since the last call."""
        attempts, self._attempts = self._attempts, []
        return attempts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Relay one HTTP request."""
        if scope["type"] != "http":
            return
        body = await read_body(receive)
        attempt = Attempt(msgspec.json.decode(body)) if body else None
        query = scope["query_string"].decode()
        url = self._upstream + scope["path"] + (f"?{query}" if query else "")
        headers = {"content-type": "application/json"}
        if attempt is not None and "completion" in scope["path"]:
            self._attempts.append(attempt)
        async with self._client.stream(scope["method"], url, content=body, headers=headers) as response:
            await send_start(send, response.status_code, response.headers.get("content-type", "application/json"))
            events = SSESplitter()
            async for data in response.aiter_raw():
                if attempt is not None:
                    for event in events.feed(data):
                        _record(attempt, event)
                await send_chunk(send, data)
            await send_end(send)


def _record(attempt: Attempt, event: bytes) -> None:
    if not event.startswith(b"{"):  # the last event is `[DONE]`
        return
    document = msgspec.json.decode(event)
    if isinstance(document.get("content"), str):  # /completion
        attempt.chunks.append(document["content"])
    for choice in document.get("choices") or ():
        delta = choice.get("delta") or {}
        if delta.get("content"):
            attempt.chunks.append(delta["content"])
        attempt.calls += delta.get("tool_calls") or ()
    timings = document.get("timings") or {}
    if timings:
        attempt.prompt_tokens = timings.get("prompt_n", 0) + timings.get("cache_n", 0)
        attempt.completion_tokens = timings.get("predicted_n", 0)
