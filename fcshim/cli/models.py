"""`fcshim models`: list an endpoint's models, with the tool calling, dialect and profile that each would get.

Rule: the endpoint is asked as a proxy with the same settings would ask it. With `--of`, a running proxy answers, whose
report includes what its requests have shown.
"""

import argparse
import asyncio

import msgspec

from fcshim.cli.endpoint import SERVER_SETTINGS, add_url, read_endpoint_settings
from fcshim.cli.flags import add_settings
from fcshim.cli.text import write_data, write_line
from fcshim.config import Config
from fcshim.errors import UpstreamError
from fcshim.sanitize import sanitize_line

_DESCRIPTION = """\
List an endpoint's models: the tool calling that each would get (through the prompt, or native),
the dialect in which it would be asked to write calls, and the profile of its chat template.
"""

_EPILOG = """\
examples:
  fcshim models                                     the model server that runs on this machine
  fcshim models http://127.0.0.1:8080 --upstream-api llamacpp
  fcshim models http://127.0.0.1:11434 --upstream-api ollama --json
  fcshim models --of http://127.0.0.1:8181      what a running proxy has learned
"""

_GROUPS = ("upstream", "tool calls", "prompt", "security", "time")
_TIMEOUT = 30.0
"""Seconds for the response of a running proxy, which may have to ask its endpoint about every model."""


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    add_url(parser)
    parser.add_argument(
        "--json", action="store_true", help="write a JSON array of {model, tools, dialect, profile, note?, upstream?}"
    )
    parser.add_argument("--of", metavar="URL", help="ask this running proxy instead, with the first --api-key")
    add_settings(parser, only=_GROUPS, without=SERVER_SETTINGS)


def run(arguments: argparse.Namespace) -> int:
    """Write the table. Raises `ConfigError` and `UpstreamError`."""
    config = read_endpoint_settings(arguments, needed=not arguments.of)
    from fcshim.upstream.model_report import (  # noqa: PLC0415 - a slow import, after the settings are checked
        ModelReport,
        report_table,
    )

    listed = _ask_proxy(arguments.of, config) if arguments.of else asyncio.run(_ask_endpoint(config))
    if arguments.json:
        write_data(msgspec.json.format(listed, indent=2).decode())
        return 0
    reports = msgspec.json.decode(listed, type=list[ModelReport])
    if not reports:
        address = arguments.of or config.upstream
        raise UpstreamError(f"{address} lists no models. Is this the address of the API, and is a model loaded there?")
    for line in report_table(reports):
        write_line(line)
    for note in dict.fromkeys(row.note for row in reports if row.note):
        write_line(f"\nnote: {note}")
    for upstream, health in dict.fromkeys((row.upstream, row.health) for row in reports if row.health):
        write_line(f"\nnote: the upstream {upstream} is {sanitize_line(health)}")
    for report in reports:
        if report.left_out:
            write_line(f"\nnote: {sanitize_line(report.model)}: the endpoint refuses {', '.join(report.left_out)}")
    return 0


async def _ask_endpoint(config: Config) -> bytes:
    from fcshim.upstream import upstream_for  # noqa: PLC0415 - see above
    from fcshim.upstream.capabilities import Capabilities  # noqa: PLC0415 - see above
    from fcshim.upstream.model_report import model_reports  # noqa: PLC0415 - see above

    if config.upstreams:
        return await _ask_upstreams(config)
    async with upstream_for(config) as upstream:
        return msgspec.json.encode(await model_reports(config, Capabilities(upstream)))


async def _ask_upstreams(config: Config) -> bytes:
    from fcshim.server.app import create_app  # noqa: PLC0415 - see above

    app = create_app(config)
    try:
        return msgspec.json.encode(await app.reports())
    finally:
        await app.aclose()


def _ask_proxy(url: str, config: Config) -> bytes:
    """Return the JSON list of a running proxy. Raises `UpstreamError`."""
    import httpx  # noqa: PLC0415 - see above

    keys = {"authorization": f"Bearer {config.api_keys[0].reveal()}"} if config.api_keys else {}
    try:
        response = httpx.get(f"{url.rstrip('/')}/fcshim/models", headers=keys, timeout=_TIMEOUT, trust_env=False)
    except httpx.HTTPError as error:
        raise UpstreamError(f"cannot ask the proxy: {error}") from error
    if response.status_code in (401, 403):
        raise UpstreamError(f"the proxy answered HTTP {response.status_code}: {response.text:.300}")
    if response.status_code != 200 or not _is_report(response.content):
        raise UpstreamError(
            f"{url} is not an fcshim proxy: {response.url.path} answered HTTP {response.status_code}. Expected the "
            "address that `fcshim serve` prints; leave out --of to list the models of another server"
        )
    return response.content


def _is_report(body: bytes) -> bool:
    from fcshim.upstream.model_report import ModelReport  # noqa: PLC0415 - see above

    try:
        msgspec.json.decode(body, type=list[ModelReport])
    except msgspec.MsgspecError:
        return False
    return True
