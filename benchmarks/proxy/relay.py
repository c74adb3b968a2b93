"""A bare relay on fcshim's own stack: uvicorn, uvloop, httptools, httpx on its aiohttp transport; bytes in, bytes out.

Rule: it does the minimum of a proxy in Python; what fcshim costs beyond this is the cost of the shim.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import httpx
import uvicorn
from httpx_aiohttp import AiohttpTransport

Message = dict[str, Any]


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


def application(upstream: str) -> Callable[..., Awaitable[None]]:
    """Return the ASGI application."""
    client = httpx.AsyncClient(transport=AiohttpTransport(client=_session, verify=False), timeout=600)

    async def app(scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Any]) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        async with client.stream("POST", upstream + scope["path"], content=body, headers=headers) as reply:
            kind = reply.headers["content-type"].encode()
            await send(
                {"type": "http.response.start", "status": reply.status_code, "headers": [(b"content-type", kind)]}
            )
            async for data in reply.aiter_raw():
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    return app


if __name__ == "__main__":
    port, upstream_url = sys.argv[1:]
    uvicorn.run(
        application(upstream_url), port=int(port), log_level="warning", access_log=False, backlog=4096, lifespan="off"
    )
