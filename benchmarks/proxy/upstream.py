"""A scripted endpoint: paced streams with one event of about 190 bytes in each HTTP chunk, and streams that fail.

Rule: it uses as little CPU as possible, so that others can be measured; `GET /open` returns the number of open streams.
"""

import asyncio
import json
import socket
import struct
import sys
import time

import uvloop

FILLER = "the quick brown fox jumps "
TEXT, CALL, TURNS = "text", "call", "turns"
DROP, REFUSE, RESET, STALL, BAD_JSON, BAD_FRAMING = "drop", "refuse", "reset", "stall", "bad-json", "bad-framing"
FAULTS = (DROP, REFUSE, RESET, STALL, BAD_JSON, BAD_FRAMING)
"""Kinds that fail: the first two before the reply starts, the others after its chunks."""
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
REFUSAL = b"HTTP/1.1 500 No\r\ncontent-type: text/html\r\ncontent-length: 14\r\n\r\n<h1>Crash</h1>"
CALL_START = '<function_call>\n{"name": "write", "arguments": {"text": "'
CALL_END = '"}}\n</function_call>'
_open: set["PacedStream"] = set()


def encode_event(content: str | None, finish: str | None = None) -> bytes:
    """Return one HTTP chunk with one event."""
    delta = {} if content is None else {"content": content}
    chunk = {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return http_chunk(b"data: " + json.dumps(chunk).encode() + b"\n\n")


def http_chunk(data: bytes) -> bytes:
    """Wrap bytes as one HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


class PacedStream(asyncio.Protocol):
    """One connection. Each request is answered with a paced stream, or with the number of open streams."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.buffer = b""
        self.task: asyncio.Task[None] | None = None

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, body = self.buffer.partition(b"\r\n\r\n")
        if not end:
            return
        if head.startswith(b"GET"):
            self.buffer = b""
            text = str(len(_open)).encode()
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text))
            return
        lines = head.lower().split(b"\r\n")
        (length,) = [int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length")] or [0]
        if len(body) >= length:
            self.buffer = b""
            self.task = asyncio.ensure_future(self.play(json.loads(body)["messages"]))

    def connection_lost(self, _error: Exception | None) -> None:
        if self.task is not None:
            self.task.cancel()

    async def play(self, messages: list[dict[str, str]]) -> None:
        """Send the stream of the last message's script: `kind:chunks:seconds between them`, and perhaps `:mark`.

        The kind `turns` repeats the marks of all messages of the user.
        """
        kind, count, pause, *_ = messages[-1]["content"].split(":")
        if kind in {DROP, REFUSE}:
            self.fail(kind)
            return
        _open.add(self)
        try:
            self.transport.write(HEAD + encode_event(""))
            if kind == TURNS:
                marks = [each["content"].rpartition(":")[2] for each in messages if each["role"] == "user"]
                self.transport.write(encode_event(f"{' '.join(marks)}\n"))
            if kind == CALL:
                self.transport.write(encode_event(CALL_START))
            due = time.monotonic()
            for _ in range(int(count)):
                due += float(pause)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                self.transport.write(encode_event(f"@{time.monotonic():.6f} {FILLER}"))
            if kind == CALL:
                self.transport.write(encode_event(CALL_END))
            if kind == STALL:
                await asyncio.Event().wait()  # until the proxy closes the connection
            if kind in FAULTS:
                self.fail(kind)
                return
            self.transport.write(encode_event(None, "stop") + http_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        finally:
            _open.discard(self)

    def fail(self, kind: str) -> None:
        """Fail as a kind of `FAULTS` says, except `STALL`."""
        if kind == DROP:
            self.transport.close()
        elif kind == REFUSE:
            self.transport.write(REFUSAL)
        elif kind == RESET:
            linger = struct.pack("ii", 1, 0)  # else the connection ends regularly
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.transport.abort()
        elif kind == BAD_JSON:
            self.transport.write(http_chunk(b'data: {"choices": [}\n\ndata: \xff\n\n') + b"0\r\n\r\n")
        elif kind == BAD_FRAMING:
            self.transport.write(b"garbage\r\n\r\n")


async def main(port: int) -> None:
    """Serve on loopback until the process is terminated."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(PacedStream, "127.0.0.1", port, backlog=4096)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
