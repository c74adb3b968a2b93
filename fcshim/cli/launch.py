"""`fcshim launch`: start a coding agent with a proxy in front of the model server.

Rule: what is started here is ended here: the agent's own process, and the proxy, which runs in this one. The model
server is only used.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fcshim.cli.endpoint import read_endpoint_settings
from fcshim.cli.flags import add_settings
from fcshim.cli.launch_clients import CLIENTS, LaunchedClient, fill
from fcshim.cli.text import write_error
from fcshim.config import Config
from fcshim.errors import ConfigError
from fcshim.events import JSON

if TYPE_CHECKING:
    import socket

_DESCRIPTION = f"""\
Start a coding agent that uses the model server of this machine, through fcshim.

The agents are {", ".join(CLIENTS)}. The model server is found, or named with --upstream. A proxy
with an inspector is started in front of it, the agent gets its address, the model and the size of
its context, and the proxy ends with the agent. The agent's own settings are not changed.
"""

_EPILOG = """\
examples:
  fcshim launch claude
  fcshim launch codex --upstream http://127.0.0.1:11434 --model qwen3
  fcshim launch opencode -- run 'Fix the test'      options after -- are the agent's

exit codes: that of the agent; 1 failure, 2 a mistake in arguments or settings
"""

_SETTINGS = (
    "upstream", "upstream_key", "upstream_api", "tools", "dialect", "profile", "prompt_style", "constrain",
    "reasoning", "max_tools", "prompt_budget", "max_retries", "invalid_calls", "num_ctx",
)  # fmt: skip
"""The settings of `fcshim serve` that this command has, too."""
_UNKNOWN_CONTEXT = 32_768
"""Tokens of a context whose size the server does not say."""
_LONGEST_REPLY = 8_192
"""Tokens of a reply; a small context leaves a quarter for it."""
_GEMINI_CONTEXT, _FILLED = 2**20, 0.7
"""The tokens that Gemini's client takes for the context of every model, and the share of the real one at which it sums
up the conversation."""
_START_SECONDS = 0.02
_ENDED_BY_SIGNAL = 128


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.usage = f"{parser.prog} AGENT [options] [-- ARGUMENT ...]"
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("agent", metavar="AGENT", choices=CLIENTS, help=", ".join(CLIENTS))
    parser.add_argument("--model", default="", metavar="NAME", help="the model (default: the first that is listed)")
    add_settings(parser, only=_SETTINGS)


def run(arguments: argparse.Namespace) -> int:
    """Start the agent and return its exit code. Raises `ConfigError` and `UpstreamError`."""
    client = CLIENTS[arguments.agent]
    program = shutil.which(client.program)
    if program is None:
        raise ConfigError(f"there is no {client.program} on PATH; to install it: {client.install}")
    arguments.url = None
    config = read_endpoint_settings(arguments)
    if config.upstreams:
        raise ConfigError("the settings have several upstreams: expected --upstream URL")
    config = msgspec.structs.replace(config, host="127.0.0.1", port=0, inspect=True, inspect_port=0, api_keys=())
    logging.getLogger("fcshim").setLevel(logging.CRITICAL)  # the agent has the terminal; the inspector shows requests
    return asyncio.run(_launch(config, client, program, arguments.model, arguments.passed))


async def _launch(config: Config, client: LaunchedClient, program: str, model: str, arguments: Sequence[str]) -> int:
    model, context = await _choose_model(config, model)
    async with _proxy(config) as (url, inspector_url):
        write_error(f"fcshim: {model}, {context:,} tokens of context; requests are shown at {inspector_url}/fcshim/")
        with tempfile.TemporaryDirectory(prefix="fcshim-") as folder:
            values: dict[str, JSON] = {
                "url": url,
                "model": model,
                "context": context,
                "output": min(context // 4, _LONGEST_REPLY),
                "share": round(_FILLED * context / _GEMINI_CONTEXT, 6),
                "folder": folder,
            }
            _write_files(client.files, Path(folder), values)
            options = [str(fill(option, values)) for option in client.options]
            variables = {name: str(fill(value, values)) for name, value in client.environment.items()}
            process = await asyncio.create_subprocess_exec(
                *(program, *options, *arguments), env={**os.environ, **variables}
            )
            return await _wait(process)


async def _choose_model(config: Config, model: str) -> tuple[str, int]:
    """Return the model and the tokens of its context. Raises `ConfigError` and `UpstreamError`."""
    from fcshim.client import Client  # noqa: PLC0415 - a slow import, after the settings are checked

    key = None if config.upstream_key is None else config.upstream_key.reveal()
    async with Client(config.upstream, api=config.upstream_api, api_key=key) as asked:
        names = await asked.models()
        if not (model or names):
            raise ConfigError(f"{config.upstream} lists no models: expected --model NAME")
        chosen = model or names[0]
        return chosen, config.num_ctx or await asked.context_length(chosen) or _UNKNOWN_CONTEXT


def _write_files(files: Mapping[str, JSON], folder: Path, values: Mapping[str, JSON]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(fill(content, values)), encoding="utf-8")


async def _wait(process: asyncio.subprocess.Process) -> int:
    """Wait for the agent and return its exit code; it gets ctrl-C from the terminal, and what ends this process."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):  # Windows
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        loop.add_signal_handler(signal.SIGTERM, process.terminate)
    try:
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return code if code >= 0 else _ENDED_BY_SIGNAL - code


@contextlib.asynccontextmanager
async def _proxy(config: Config) -> AsyncIterator[tuple[str, str]]:
    """Run the proxy in this process; yield its address and the inspector's."""
    from fcshim.server.app import create_app  # noqa: PLC0415 - as above
    from fcshim.server.banner import own_url  # noqa: PLC0415
    from fcshim.server.run import ProxyServer, listen, listen_for_inspector, silence_library_logs  # noqa: PLC0415

    silence_library_logs()
    with listen(config) as listener, listen_for_inspector(config) as inspector:
        assert inspector is not None
        server = ProxyServer(config, create_app(config, inspector_port=_port_of(inspector)))
        task = asyncio.create_task(server.serve(sockets=[listener, inspector]))
        while not (server.started or task.done()):  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(_START_SECONDS)
        try:
            yield own_url(config.host, _port_of(listener)), own_url(config.host, _port_of(inspector))
        finally:
            server.drain()
            server.end_requests()
            await task


def _port_of(listener: "socket.socket") -> int:
    port: int = listener.getsockname()[1]
    return port
