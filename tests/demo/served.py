"""The embedded model and a proxy in front of it, served to other programs by a thread of the tests."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass

from fcshim.demo.serving import serve_model, serve_proxy


@dataclass
class Addresses:
    upstream: str
    proxy: str


@contextmanager
def served_demo() -> Iterator[Addresses]:
    """Serve both in a loop of their own."""
    found: list[tuple[Addresses, asyncio.AbstractEventLoop, asyncio.Event]] = []
    started = threading.Event()

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            model = await stack.enter_async_context(serve_model("numpy"))
            proxy = await stack.enter_async_context(serve_proxy(model.url))
            over = asyncio.Event()
            found.append((Addresses(model.url, proxy), asyncio.get_running_loop(), over))
            started.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(30)
    served, loop, over = found[0]
    try:
        yield served
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(30)
