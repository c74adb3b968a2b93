"""Clients: many streams at once, each counting its bytes and the age of every time stamp that it sees.

Rule: it is bounded by the streams that it was given, and ends by itself.
Neighbours: `__main__` calls it; `upstream` writes the stamps.
"""

import asyncio
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from fcshim.codecs.routes import CODECS
from fcshim.messages import AUTO, Request, TextPart, Tool, ToolChoice, UserMessage

CHAT = "openai_chat"
_STAMP = re.compile(rb"@(\d+\.\d{6}) ")
_TOOL = Tool("write", "", {"type": "object", "properties": {}})
_END_MARKERS = {
    CHAT: b"[DONE]",
    "openai_responses": b".done\n",  # from here on it says everything once more
    "anthropic": b"message_stop",
    "gemini": b'"finishReason"',
    "ollama": b'"done":true',
}
"""What stands where a stream has said everything, by API."""


@dataclass
class LoadResult:
    """What all streams saw: ages of time stamps in seconds, and how many streams ended cleanly."""

    ages: list[float] = field(default_factory=list)
    first_chunk_seconds: list[float] = field(default_factory=list)
    completed: int = 0

    @property
    def median_age(self) -> float:
        return statistics.median(self.ages)

    @property
    def median_first_chunk(self) -> float:
        """Seconds from a request to the first time stamp of its answer."""
        return statistics.median(self.first_chunk_seconds)


def encode_request(script: str, api: str = CHAT, tools: Sequence[Tool] = (), choice: ToolChoice = AUTO) -> bytes:
    """Write one request whose answer is `script`, in the form of a client API; it offers one tool, and `tools`."""
    said = UserMessage((TextPart(script),))
    asked = Request(model="m", messages=(said,), tools=(_TOOL, *tools), tool_choice=choice)
    outgoing = CODECS[api].encode_request(asked)
    path = outgoing.path[1:] if outgoing.path.startswith("//") else "/v1" + outgoing.path
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(outgoing.body)}\r\n\r\n".encode() + outgoing.body


async def read_stream(port: int, script: str, result: LoadResult, api: str = CHAT) -> None:
    """Ask for a script, and read its stream to the end."""
    await send_request(port, encode_request(script, api), result, api)


async def send_request(port: int, request: bytes, result: LoadResult, api: str = CHAT) -> None:
    """Send a request, and read its stream to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    end = _END_MARKERS[api]
    try:
        begun = time.monotonic()
        writer.write(request)
        tail = b""
        first = True
        while data := await reader.read(65536):
            now = time.monotonic()
            text, ended, _ = (tail + data).partition(end)
            found = _STAMP.findall(text)
            if found and first:
                result.first_chunk_seconds.append(now - begun)
                first = False
            result.ages.extend(now - float(stamp) for stamp in found)
            tail = text[text.rfind(b"@") :][:20] if b"@" in text[-20:] else text[-len(end) :]
            if ended:
                result.completed += 1
                return
    finally:
        writer.close()


async def read_streams(port: int, count: int, script: str, api: str = CHAT) -> LoadResult:
    """Read that many streams at once, begun over a short while."""
    seen = LoadResult()

    async def begin(number: int) -> None:
        await asyncio.sleep(number * 0.3 / count)
        await read_stream(port, script, seen, api)

    await asyncio.gather(*(begin(number) for number in range(count)))
    return seen
