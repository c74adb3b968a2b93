"""A relay between the proxy and the model that records the prompts and the replies.

Rule: bytes are relayed unchanged; only what the demo shows is parsed.
"""

from dataclasses import dataclass, field

import httpx
import msgspec

from fcshim.codecs.framing import SSESplitter
from fcshim.demo.asgi import Message, Receive, Send, read_body, send_chunk, send_end, send_start


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One request to the model: the messages as (role, text), and the chunks of text of its reply."""

    messages: list[tuple[str, str]]
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the reply."""
        return "".join(self.pieces)


class RecordingRelay:
    """The relay for `upstream`, an ASGI application."""

    def __init__(self, client: httpx.AsyncClient, upstream: str) -> None:
        self._client = client
        self._upstream = upstream
        self.records: list[RecordedExchange] = []

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Relay one HTTP request."""
        if scope["type"] != "http":
            return
        body = await read_body(receive)
        recorded = scope["path"].endswith("/chat/completions")
        if recorded:
            request = msgspec.json.decode(body)
            self.records.append(RecordedExchange([(m["role"], m["content"]) for m in request["messages"]]))
        url = self._upstream + scope["path"]
        headers = {"content-type": "application/json"}
        async with self._client.stream(scope["method"], url, content=body, headers=headers) as response:
            await send_start(send, response.status_code, response.headers.get("content-type", "application/json"))
            events = SSESplitter()
            async for data in response.aiter_raw():
                for event in events.feed(data) if recorded else ():
                    self._record(event)
                await send_chunk(send, data)
            await send_end(send)

    def _record(self, event: bytes) -> None:
        if event.startswith(b"{"):  # the last event is `[DONE]`
            for choice in msgspec.json.decode(event).get("choices", ()):
                if piece := choice["delta"].get("content"):
                    self.records[-1].pieces.append(piece)
