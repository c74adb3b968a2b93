"""What the request of `benchmarks.structure` passes through in LiteLLM's proxy, whose upstream calls tools by itself.

LiteLLM reads and writes the call in the API's own form, so that it neither writes a prompt nor reads text.

    python -m tests.clients.environments litellm
    .cache/clients/litellm/bin/python -m benchmarks.structure_peer
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.request_trace import BODY, RequestTrace

_KEY = "sk-0123456789abcdef0123456789abcdef"
_WARMING = 3
_DELTAS = (
    {"role": "assistant", "content": "I look it up."},
    {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "get_weather", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": "Rome"}'}}]},
)


def _reply() -> bytes:
    """Write the reply of an upstream that calls the tool, as server-sent events."""
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in _DELTAS]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    head = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    lines = [json.dumps({**head, "choices": [choice]}) for choice in choices]
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()


@asynccontextmanager
async def _upstream() -> AsyncIterator[str]:
    """Serve the reply to every request; yield the URL."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = next((line[15:] for line in head.split(b"\r\n") if line.startswith(b"content-length:")), b"0")
        await reader.readexactly(int(length))
        body = _reply()
        fields = f"content-type: text/event-stream\r\ncontent-length: {len(body)}\r\nconnection: close"
        writer.write(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def trace_request() -> RequestTrace:
    """Send the request to LiteLLM's application, and return the trace of the last one."""
    async with _upstream() as url:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "config.yaml"
            model = {"model_name": "m", "litellm_params": {"model": "openai/m", "api_base": url, "api_key": "x"}}
            config.write_text(json.dumps({"model_list": [model]}), encoding="utf-8")
            os.environ |= {
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "LITELLM_MASTER_KEY": _KEY,
                "WORKER_CONFIG": json.dumps({"config": str(config)}),
            }
            import httpx  # noqa: PLC0415 - in the peer's environment
            import litellm  # noqa: PLC0415 - reads the environment
            from litellm.proxy.proxy_server import app  # noqa: PLC0415 - as above

            transport, headers = httpx.ASGITransport(app=app), {"authorization": f"Bearer {_KEY}"}
            async with (
                app.router.lifespan_context(app),
                httpx.AsyncClient(transport=transport, base_url="http://proxy", headers=headers) as client,
            ):
                for _ in range(_WARMING):
                    await _post(client)
                with RequestTrace(Path(litellm.__file__).parent) as trace:
                    await _post(client)
    return trace


async def _post(client: "httpx.AsyncClient") -> None:  # noqa: F821 - imported in the peer's environment
    reply = await client.post("/v1/chat/completions", json=BODY)
    await asyncio.sleep(0.5)  # what it does after the reply
    if "get_weather" not in reply.text:
        raise ValueError(f"expected a call of get_weather, got {reply.text!r}")


def main() -> int:
    """Print the figures."""
    trace = asyncio.run(trace_request())
    print(
        f"files {len(trace.files)}, functions {len(trace.functions)}, "
        f"changes between packages {trace.package_changes}, deepest stack {trace.deepest}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
