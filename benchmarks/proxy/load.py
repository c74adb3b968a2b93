"""Clients: many streams at once, each counting its bytes and the age of every time stamp that it sees.

Rule: it is bounded by the streams that it was given, and ends by itself.
Neighbours: `__main__` calls it; `upstream` writes the stamps.
"""

import asyncio
import json
import re
import statistics
import time
from dataclasses import dataclass, field

_STAMP = re.compile(rb"@(\d+\.\d{6}) ")
_TOOL = {"type": "function", "function": {"name": "write", "parameters": {"type": "object", "properties": {}}}}


@dataclass
class Seen:
    """What all streams saw: ages of time stamps in seconds, and how many streams ended cleanly."""

    ages: list[float] = field(default_factory=list)
    clean: int = 0

    @property
    def median_age(self) -> float:
        return statistics.median(self.ages)


def request(script: str) -> bytes:
    """Write one chat request whose answer is `script`; it offers a tool."""
    body = json.dumps(
        {
            "model": "m",
            "stream": True,
            "user": script,
            "tools": [_TOOL],
            "messages": [{"role": "user", "content": "go"}],
        }
    ).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def stream(port: int, script: str, seen: Seen) -> None:
    """Read one stream to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request(script))
        tail = b""
        while data := await reader.read(65536):
            now = time.monotonic()
            text = tail + data
            found = _STAMP.findall(text)
            seen.ages.extend(now - float(stamp) for stamp in found)
            tail = text[text.rfind(b"@") :][:20] if b"@" in text[-20:] else b""
            if b"[DONE]" in data:
                seen.clean += 1
                return
    finally:
        writer.close()


async def streams(port: int, count: int, script: str) -> Seen:
    """Read that many streams at once, begun over a short while."""
    seen = Seen()

    async def begin(number: int) -> None:
        await asyncio.sleep(number * 0.3 / count)
        await stream(port, script, seen)

    await asyncio.gather(*(begin(number) for number in range(count)))
    return seen
