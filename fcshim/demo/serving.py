"""Serves the tiny model over HTTP on this machine, with the embedded runtime or a `llama-server` on PATH.

Rule: servers listen on loopback and free ports by default; each is stopped at the end of its context.
"""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx
import uvicorn

from fcshim.config import Config
from fcshim.demo.asgi import App
from fcshim.demo.endpoint import ChatEndpoint
from fcshim.demo.generation import Engine
from fcshim.demo.gguf_file import TINY_MODEL, load_model
from fcshim.errors import ConfigError
from fcshim.server.app import create_app
from fcshim.server.run import listen

LOOPBACK = "127.0.0.1"
LLAMA_SERVER = "llama-server"
START_TIMEOUT = 20.0
"""Seconds for a llama-server to load a file of 1.5 MB, which normally takes a fraction of a second."""

EngineName = Literal["auto", "numpy", "llama-server"]


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that is served at `url`; `engine` describes the runtime."""

    url: str
    engine: str


@asynccontextmanager
async def serve_model(engine: EngineName = "auto", path: Path = TINY_MODEL) -> AsyncIterator[ServedModel]:
    """Serve a model file. `auto` uses a llama-server on PATH, otherwise the embedded runtime.

    Raises `ConfigError` if a named engine is missing or does not start.
    """
    binary = None if engine == "numpy" else shutil.which(LLAMA_SERVER)
    if engine == "llama-server" and binary is None:
        raise ConfigError(f"there is no {LLAMA_SERVER} on PATH")
    if binary is not None:
        async with _run_llama_server(binary, path) as url:
            yield ServedModel(url, f"{LLAMA_SERVER} ({binary})")
    else:
        app = ChatEndpoint(await asyncio.to_thread(lambda: Engine(load_model(path))))
        async with serve_app(app) as url:
            yield ServedModel(url, "the embedded numpy runtime")


@asynccontextmanager
async def serve_proxy(upstream: str, host: str = LOOPBACK, port: int = 0) -> AsyncIterator[str]:
    """Serve the proxy for `upstream` and yield its URL. Raises `ConfigError` if it cannot listen."""
    async with serve_app(create_app(Config(upstream=upstream, host=host)), host, port) as url:
        yield url


@asynccontextmanager
async def serve_app(app: App, host: str = LOOPBACK, port: int = 0) -> AsyncIterator[str]:
    """Run an ASGI application in this event loop and yield its URL. Raises `ConfigError` if it cannot listen."""
    with listen(Config(host=host, port=port)) as listener:
        server = _UvicornServer(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await server.ready.wait()
        try:
            yield f"http://{host}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


class _UvicornServer(uvicorn.Server):
    """A uvicorn server that sets `ready` when it has started, and that installs no signal handlers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def _run_llama_server(binary: str, path: Path) -> AsyncIterator[str]:
    port = _free_port()
    flags = {"--model": path, "--host": LOOPBACK, "--port": port, "--ctx-size": 4096, "--parallel": 1, "--threads": 2}
    process = await asyncio.create_subprocess_exec(
        binary,
        *(str(part) for flag in flags.items() for part in flag),
        *("--alias", "fcshim-tiny", "--temp", "0"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        url = f"http://{LOOPBACK}:{port}"
        await _wait_until_healthy(process, url)
        yield url
    finally:
        await _terminate(process)


async def _wait_until_healthy(process: asyncio.subprocess.Process, url: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(int(START_TIMEOUT / 0.05)):
            if process.returncode is not None:
                raise ConfigError(
                    f"{LLAMA_SERVER} ended with status {process.returncode} instead of serving the tiny model"
                )
            if await _is_healthy(client, url):
                return
            await asyncio.sleep(0.05)
    raise ConfigError(f"{LLAMA_SERVER} did not begin to serve the tiny model within {START_TIMEOUT:.0f} s")


async def _is_healthy(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(f"{url}/health")).is_success
    except httpx.TransportError:
        return False


async def _terminate(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), timeout=3)
    except TimeoutError:
        process.kill()
        await process.wait()


def _free_port() -> int:
    """Return a port that was free a moment ago, because llama-server cannot take over a listening socket."""
    with socket.create_server((LOOPBACK, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
