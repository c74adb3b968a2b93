"""Serves several configurations of fcshim in one process, each on a listener of its own, so that only they differ.

Rule: two processes of the same program differ by more than some features cost: their memory lies elsewhere.
"""

import asyncio
import gc
import json
import os
import socket
import sys

import uvicorn
import uvloop

from fcshim.config import load_config
from fcshim.server.app import create_app
from fcshim.server.run import ProxyServer, silence_library_logs

COLLECTOR = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""A variable of the environment, which is given among the flags of a configuration."""


class _BusyServer(ProxyServer):
    """A server that keeps its memory between the turns of a measurement, as one does that has no pause."""

    async def on_tick(self, counter: int) -> bool:
        return await uvicorn.Server.on_tick(self, counter)


class _StillServer(ProxyServer):
    """A server that does nothing but what it is asked for, so that its instructions can be counted."""

    async def main_loop(self) -> None:
        await asyncio.Event().wait()


async def serve_all(variants: list[dict[str, str | bool]], files: list[int], *, still: bool = False) -> None:
    """Serve each set of flags on the listener of its file descriptor until the process ends.

    `still`: without ticks and collections.
    """
    silence_library_logs()
    if still:
        gc.disable()
    server = _StillServer if still else _BusyServer
    await asyncio.gather(*(_serve(*each, server) for each in zip(variants, files, strict=True)))


async def _serve(flags: dict[str, str | bool], file: int, server: type[ProxyServer]) -> None:
    collector = flags.pop(COLLECTOR, "")
    if collector:
        os.environ[COLLECTOR] = str(collector)
    config = load_config(flags)
    app = create_app(config)
    os.environ.pop(COLLECTOR, None)
    await server(config, app).serve(sockets=[socket.socket(fileno=file)])


if __name__ == "__main__":
    *options, flag_sets, listeners = sys.argv[1:]
    uvloop.run(serve_all(json.loads(flag_sets), json.loads(listeners), still="--still" in options))
