"""The load: many concurrent streams, whose clients record the age of every time stamp in them.

Rule: the load ends with its streams.
"""

import asyncio
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from fcshim.codecs.routes import CODECS
from fcshim.messages import AUTO, Request, TextPart, Tool, ToolChoice, UserMessage

CHAT = "openai_chat"
_STAMP = re.compile(rb"@(\d+\.\d{6}) ")
_TOOL = Tool("write", "", {"type": "object", "properties": {}})
_END_MARKERS = {
    CHAT: b"[DONE]",
    "openai_responses": b".done\n",  # the events after this one repeat the whole text
    "anthropic": b"message_stop",
    "gemini": b'"finishReason"',
    "ollama": b'"done":true',
}
"""The bytes that mark the end of the content of a stream, by API."""


@dataclass
class LoadResult:
    """The results of all streams: ages of time stamps in seconds, times to first chunks, number of complete streams."""

    ages: list[float] = field(default_factory=list)
    first_chunk_seconds: list[float] = field(default_factory=list)
    completed: int = 0

    @property
    def median_age(self) -> float:
        return statistics.median(self.ages)

    @property
    def median_first_chunk(self) -> float:
        """Median seconds from a request to the first time stamp of its reply."""
        return statistics.median(self.first_chunk_seconds)


def encode_request(
    script: str,
    api: str = CHAT,
    tools: Sequence[Tool] = (),
    choice: ToolChoice = AUTO,
    *,
    offers_tool: bool = True,
    streamed: bool = True,
) -> bytes:
    """Return an HTTP request in a client API, with `script` as its text; it offers one tool, and `tools`."""
    message = UserMessage((TextPart(script),))
    chat_request = Request(
        model="m", messages=(message,), tools=(*((_TOOL,) if offers_tool else ()), *tools), tool_choice=choice
    )
    outgoing = CODECS[api].encode_request(chat_request)
    if not streamed:  # codecs write requests for upstreams, which always stream
        path = outgoing.path.replace(":streamGenerateContent?alt=sse", ":generateContent")
        body = outgoing.body.replace(b'"stream":true', b'"stream":false')
        outgoing = msgspec.structs.replace(outgoing, path=path, body=body)
    path = outgoing.path[1:] if outgoing.path.startswith("//") else "/v1" + outgoing.path
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(outgoing.body)}\r\n\r\n".encode() + outgoing.body


async def read_stream(port: int, script: str, result: LoadResult, api: str = CHAT) -> None:
    """Request a script, and read its stream to the end."""
    await send_request(port, encode_request(script, api), result, api)


async def send_request(port: int, request: bytes, result: LoadResult, api: str = CHAT) -> None:
    """Send a request, and read its stream to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    end = _END_MARKERS[api]
    try:
        started = time.monotonic()
        writer.write(request)
        tail = b""
        first = True
        while data := await reader.read(65536):
            now = time.monotonic()
            text, ended, _ = (tail + data).partition(end)
            stamps = _STAMP.findall(text)
            if stamps and first:
                result.first_chunk_seconds.append(now - started)
                first = False
            result.ages.extend(now - float(stamp) for stamp in stamps)
            tail = text[text.rfind(b"@") :][:20] if b"@" in text[-20:] else text[-len(end) :]
            if ended:
                result.completed += 1
                return
    finally:
        writer.close()


async def read_streams(port: int, count: int, script: str, api: str = CHAT) -> LoadResult:
    """Read `count` streams concurrently, with their starts spread over 0.3 seconds."""
    result = LoadResult()

    async def begin(number: int) -> None:
        await asyncio.sleep(number * 0.3 / count)
        await read_stream(port, script, result, api)

    await asyncio.gather(*(begin(number) for number in range(count)))
    return result
