"""Serves a model over HTTP on this machine: the tiny one with the embedded runtime, any with `llama-server`.

Rule: servers listen on loopback and free ports by default; each is stopped at the end of its context.
"""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx
import uvicorn

from fcshim.config import Config
from fcshim.demo.asgi import App
from fcshim.demo.endpoint import ChatEndpoint
from fcshim.demo.generation import Engine
from fcshim.demo.gguf_file import TINY_MODEL, check_gguf, load_model
from fcshim.errors import ConfigError
from fcshim.server.app import create_app
from fcshim.server.run import listen

LOOPBACK = "127.0.0.1"
LLAMA_SERVER = "llama-server"
START_TIMEOUT = 20.0
"""Seconds for a llama-server to load the tiny model, which normally takes a fraction of a second."""
LOAD_TIMEOUT = 600.0
"""Seconds for a llama-server to load a real model: 50 GB from a slow disk."""

_ADVICE = """\
Install llama.cpp (Debian: apt install llama.cpp-tools; macOS: brew install llama.cpp; \
or https://github.com/ggml-org/llama.cpp/releases), or name the program with --llama-server PATH"""
_TINY_OPTIONS = ("--ctx-size", "4096", "--threads", "2", "--alias", "fcshim-tiny", "--temp", "0")
_REAL_OPTIONS = ("--ctx-size", "8192")
_LOG_BYTES = 800
"""Bytes of the log of a llama-server that are kept: if it fails, the last lines name the reason."""

EngineName = Literal["auto", "numpy", "llama-server"]


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that is served at `url`; `engine` describes the runtime."""

    url: str
    engine: str


@asynccontextmanager
async def serve_model(engine: EngineName = "auto", program: str = LLAMA_SERVER) -> AsyncIterator[ServedModel]:
    """Serve the tiny model. `auto` uses the llama-server `program` if it exists, otherwise the embedded runtime.

    Raises `ConfigError` if a named engine is missing or does not start.
    """
    binary = None if engine == "numpy" else shutil.which(program)
    if binary is None and (engine == "llama-server" or program != LLAMA_SERVER):
        raise _missing(program)
    if binary is not None:
        async with _run_llama_server(binary, TINY_MODEL, _TINY_OPTIONS, START_TIMEOUT) as url:
            yield ServedModel(url, f"{LLAMA_SERVER} ({binary})")
    else:
        app = ChatEndpoint(await asyncio.to_thread(lambda: Engine(load_model())))
        async with serve_app(app) as url:
            yield ServedModel(url, "the embedded numpy runtime")


@asynccontextmanager
async def serve_real_model(path: Path, program: str = LLAMA_SERVER) -> AsyncIterator[ServedModel]:
    """Serve a GGUF file of any model with the llama-server `program`: a path, or a name on PATH.

    Raises `ConfigError` if there is no such program or file, or if it does not serve that file.
    """
    check_gguf(path)
    binary = shutil.which(program)
    if binary is None:
        raise _missing(program)
    async with _run_llama_server(binary, path, _REAL_OPTIONS, LOAD_TIMEOUT) as url:
        yield ServedModel(url, f"{LLAMA_SERVER} ({binary})")


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


def _missing(program: str) -> ConfigError:
    where = "on PATH" if program == LLAMA_SERVER else f"at {program}"
    return ConfigError(f"there is no {LLAMA_SERVER} {where}. {_ADVICE}")


@asynccontextmanager
async def _run_llama_server(binary: str, path: Path, options: Sequence[str], seconds: float) -> AsyncIterator[str]:
    with socket.create_server((LOOPBACK, 0)) as probe:
        port: int = probe.getsockname()[1]  # free a moment ago: llama-server cannot take over a listening socket
    process = await asyncio.create_subprocess_exec(
        *(binary, "--model", str(path), "--host", LOOPBACK, "--port", str(port), "--parallel", "1", *options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    log = bytearray()
    reader = asyncio.create_task(_keep_end(process, log))
    try:
        url = f"http://{LOOPBACK}:{port}"
        if problem := await _wait_until_healthy(process, url, seconds):
            await asyncio.wait({reader}, timeout=1)
            complete = log.decode(errors="replace").splitlines()[len(log) == _LOG_BYTES :]
            raise ConfigError("\n  ".join((f"{LLAMA_SERVER} {problem} {path}", *complete)))
        yield url
    finally:
        await _terminate(process)
        reader.cancel()


async def _wait_until_healthy(process: asyncio.subprocess.Process, url: str, seconds: float) -> str:
    """Return an empty string when the server is ready, or why it does not serve."""
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(int(seconds / 0.05)):
            if process.returncode is not None:
                return f"ended with status {process.returncode} instead of serving"
            with suppress(httpx.TransportError):
                if (await client.get(f"{url}/health")).is_success:
                    return ""
            await asyncio.sleep(0.05)
    return f"did not begin within {seconds:.0f} s to serve"


async def _keep_end(process: asyncio.subprocess.Process, log: bytearray) -> None:
    """Read what the process writes, so that it can go on writing, and keep the end in `log`."""
    assert process.stdout is not None
    while data := await process.stdout.read(4096):
        log += data
        del log[:-_LOG_BYTES]


async def _terminate(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), timeout=3)
    except TimeoutError:
        process.kill()
        await process.wait()
