"""Serves several configurations of fcshim in one process, each on a port of its own, so that only they differ.

Rule: two processes of the same program differ by more than some features cost: their memory lies elsewhere.
"""

import asyncio
import json
import os
import sys

import uvicorn
import uvloop

from fcshim.config import load_config
from fcshim.server.app import create_app
from fcshim.server.run import ProxyServer, listen, silence_library_logs

COLLECTOR = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""Stands among the flags of a configuration, although it is a variable of the environment."""


class _BusyServer(ProxyServer):
    """A server that keeps its memory between the turns of a measurement, as one does that has no pause."""

    async def on_tick(self, counter: int) -> bool:
        return await uvicorn.Server.on_tick(self, counter)


async def serve_all(variants: list[dict[str, str | bool]]) -> None:
    """Serve the configuration of each set of flags until the process ends."""
    silence_library_logs()
    await asyncio.gather(*(_serve(flags) for flags in variants))


async def _serve(flags: dict[str, str | bool]) -> None:
    collector = flags.pop(COLLECTOR, "")
    if collector:
        os.environ[COLLECTOR] = str(collector)
    config = load_config(flags)
    app = create_app(config)
    os.environ.pop(COLLECTOR, None)
    await _BusyServer(config, app).serve(sockets=[listen(config)])


if __name__ == "__main__":
    uvloop.run(serve_all(json.loads(sys.argv[1])))
