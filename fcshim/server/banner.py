"""Writes the banner of the proxy: the server behind it, how each model is asked, one line for each client API.

Rule: the facts are those of the status page. They are asked for beside the first requests and within a time limit; an
upstream that does not answer is a warning.
"""

import asyncio
import contextlib
import logging
import sys
from importlib.metadata import version
from pathlib import Path

from fcshim.config import Config, host_and_port
from fcshim.config.store_address import MEMORY
from fcshim.errors import UpstreamError
from fcshim.sanitize import sanitize
from fcshim.server.status_page import Reports, client_lines, describe_server
from fcshim.upstream.capabilities import Capabilities
from fcshim.upstream.model_report import report_table

logger = logging.getLogger("fcshim.server")

_TIME_LIMIT = 10.0
"""Seconds for all that is asked of the upstream, which may have to be asked about every model."""
_MAX_MODELS = 20
"""Models in the banner; a hosted endpoint lists hundreds."""
_UNSPECIFIED = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not to listen on, but to replace
"""The host to which a client on this machine connects where the proxy listens on every address."""


def own_url(host: str, port: int) -> str:
    """Return the URL by which a client on this machine reaches a proxy that listens on `host`."""
    host = _UNSPECIFIED.get(host, host)
    return f"http://{host_and_port(host, port)}"


async def show_banner(
    config: Config, capabilities: Capabilities, reports: Reports, url: str, inspector_url: str = ""
) -> None:
    """Write the banner to stderr, by the log's level, or only warn of an upstream that does not answer."""
    if not logger.isEnabledFor(logging.WARNING):
        return
    try:
        async with asyncio.timeout(_TIME_LIMIT):
            lines = await _describe_upstream(config, capabilities, reports)
    except (UpstreamError, TimeoutError) as error:
        logger.warning("%s does not list its models: %s; serving anyway", capabilities.upstream.url, _reason(error))
        lines = []
    if logger.isEnabledFor(logging.INFO):
        if config.store != MEMORY:
            lines.append(f"replies and turns are remembered in {config.store}")
        lines += _describe_observers(config, url, inspector_url)
        rows = client_lines(url, "KEY" if config.api_keys else "none")
        width = max(len(name) for name, _ in rows)
        lines += ["to point a client here:", *(f"  {name:<{width}}  {line}" for name, line in rows)]
        text = "\n".join(lines)
        with contextlib.suppress(OSError, ValueError):  # stderr is closed: the proxy serves all the same
            sys.stderr.write(f"{sanitize(text)}\n")
            sys.stderr.flush()


def _reason(error: UpstreamError | TimeoutError) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {_TIME_LIMIT:g} s"
    return error.message


async def _describe_upstream(config: Config, capabilities: Capabilities, reports: Reports) -> list[str]:
    models = await reports()
    if not models:
        raise UpstreamError("the answer names no model (is this the address of the API, and is a model loaded?)")
    server = await describe_server(config, capabilities.upstream)
    lines = [f"fcshim {version('fcshim')} in front of {server.kind} at {server.address}"]
    lines += [f"  {line}" for line in report_table(models[:_MAX_MODELS])]
    if len(models) > _MAX_MODELS:
        lines.append(f"  and {len(models) - _MAX_MODELS} more: fcshim models")
    return lines


def _describe_observers(config: Config, url: str, inspector_url: str) -> list[str]:
    """Return a line for each place where requests can be inspected, with its address."""
    folder = Path(config.record or "")
    places = {
        f"requests are shown at {inspector_url}/fcshim/": config.inspect,
        f"metrics for Prometheus are at {url}/metrics": config.metrics,
        f"requests are recorded in {folder.parent if config.workers > 1 else folder}": config.record is not None,
    }
    return [line for line, is_on in places.items() if is_on]
