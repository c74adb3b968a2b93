"""`fcshim models`: what an endpoint's models can do, and how fcshim would ask them.

Rule: asked of the endpoint, as a proxy with the same settings would; a running proxy tells what it has learned besides.
Neighbours: `inquiry` asks, `server.app` shows the same of a running proxy.
"""

import argparse
import asyncio

import httpx
import msgspec

from fcshim.cli.flags import add_settings, read_settings
from fcshim.cli.text import write_line
from fcshim.config import Config
from fcshim.errors import UpstreamError

_DESCRIPTION = """\
List an endpoint's models: whose tool calling each would get (the prompt's, or its own), in which
dialect it would be asked to write calls, and what is known of its template (the profile).
"""

_EPILOG = """\
examples:
  fcshim models --upstream http://127.0.0.1:8080 --upstream-api llamacpp --tools auto
  fcshim models --upstream http://127.0.0.1:11434 --upstream-api ollama --tools auto --json
  fcshim models --of http://127.0.0.1:8181      what a running proxy has found out
"""

_TIMEOUT = 30.0
"""Seconds for a running proxy's answer: it may have to ask its endpoint about every model."""


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Give the parser the command's description and arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("--json", action="store_true", help="write a JSON array of {model, tools, dialect, profile}")
    parser.add_argument("--of", metavar="URL", help="ask a running proxy (with the first --api-key) instead")
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the table. Raises `ConfigError` and `UpstreamError`."""
    config = read_settings(arguments)
    from fcshim.capabilities import ModelReport  # noqa: PLC0415 - a mistake in the settings is told before this long import

    listed = _ask_proxy(arguments.of, config) if arguments.of else asyncio.run(_ask_endpoint(config))
    if arguments.json:
        write_line(msgspec.json.format(listed, indent=2).decode())
        return 0
    rows = [msgspec.structs.astuple(row) for row in msgspec.json.decode(listed, type=list[ModelReport])]
    table = [("model", "tools", "dialect", "profile"), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        write_line("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())
    return 0


async def _ask_endpoint(config: Config) -> bytes:
    from fcshim.capabilities import ToolSupport, model_reports  # noqa: PLC0415 - see above
    from fcshim.upstream import upstream_for  # noqa: PLC0415 - see above

    async with upstream_for(config) as upstream:
        return msgspec.json.encode(await model_reports(config, ToolSupport(upstream)))


def _ask_proxy(url: str, config: Config) -> bytes:
    """Ask a running proxy. Raises `UpstreamError`."""
    keys = {"authorization": f"Bearer {config.api_keys[0].reveal()}"} if config.api_keys else {}
    try:
        answer = httpx.get(f"{url.rstrip('/')}/fcshim/models", headers=keys, timeout=_TIMEOUT, trust_env=False)
    except httpx.HTTPError as error:
        raise UpstreamError(f"cannot ask the proxy: {error}") from error
    if answer.status_code != 200:
        raise UpstreamError(f"the proxy answered HTTP {answer.status_code}: {answer.text:.300}")
    return answer.content
