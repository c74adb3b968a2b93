"""The endpoint of a command: the URL that was given, a setting, or the model server that is found on this machine.

Rule: only loopback is searched, without a key, and only if nothing names an endpoint. An fcshim proxy is ignored.
"""

import argparse
import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fcshim.cli.flags import read_settings
from fcshim.cli.text import write_error
from fcshim.config import NOT_NAMED, Config, endpoint_url
from fcshim.errors import ConfigError, UpstreamError
from fcshim.events import JSON
from fcshim.sanitize import sanitize_line

if TYPE_CHECKING:
    import httpx

PORTS = (8080, 11434, 1234, 8000, 30000, 5001, 5000)
"""Where llama-server, Ollama, LM Studio, vLLM, SGLang, KoboldCpp and text-generation-webui listen by default."""
OWN_SERVER = "fcshim"
"""The header `server` of fcshim's own `/health`."""
SERVER_SETTINGS = (
    "forward_client_key", "allowed_hosts", "allow_origins",
    "head_timeout", "body_timeout", "ping", "first_ping", "drain_timeout",
)  # fmt: skip
"""Settings of the groups `upstream`, `security` and `time` that have an effect only where clients send requests."""
_PROBE_TIMEOUT = 0.5
"""Seconds for all pages of one port: a list of models comes from memory."""
_DETECTION_TIMEOUT = 2.0
"""Seconds to find out what kind of server it is, which is only shown to the user."""
_SHOWN_MODELS = 3


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A model server on this machine: its URL, the names of its models, what is known about it, for the user."""

    url: str
    models: tuple[str, ...]
    kind: str

    def __str__(self) -> str:
        names = ", ".join(map(sanitize_line, self.models[:_SHOWN_MODELS]))
        more = f" and {len(self.models) - _SHOWN_MODELS} more" if len(self.models) > _SHOWN_MODELS else ""
        return f"{self.url}  ({self.kind}{': ' + names + more if names else ''})"


def add_url(parser: argparse.ArgumentParser) -> None:
    """Add the positional argument of the endpoint."""
    parser.add_argument(
        "url",
        metavar="URL",
        nargs="?",
        help="the endpoint, with or without /v1 [FCSHIM_UPSTREAM; default: the model server found on this machine]",
    )


def read_endpoint_settings(arguments: argparse.Namespace, *, needed: bool = True) -> Config:
    """Read the settings, with the endpoint that is named or found; without `needed`, none is looked for.

    Raises `ConfigError`, also if several servers are found, and `UpstreamError` if none is.
    """
    if arguments.url:
        if hasattr(arguments, "upstream"):
            raise ConfigError("expected the URL or --upstream, not both")
        arguments.upstream = endpoint_url(arguments.url)
    config = read_settings(arguments, defaults={"upstream": NOT_NAMED} if needed else None)
    if config.upstreams:
        return read_settings(arguments)
    if config.upstream != NOT_NAMED:
        return config
    server = choose(asyncio.run(find_servers()))
    write_error(f"fcshim: found {server}")
    return read_settings(arguments, defaults={"upstream": server.url})


def choose(servers: list[FoundServer]) -> FoundServer:
    """Return the only server. Raises `ConfigError` if there are several, `UpstreamError` if there is none."""
    if not servers:
        raise UpstreamError(
            f"no model server answers on 127.0.0.1 (tried the ports {', '.join(map(str, PORTS))}). Start one, such as "
            "`llama-server -m model.gguf --port 8080` or `ollama serve`, or name its URL: http://HOST:PORT"
        )
    if len(servers) > 1:
        listed = "".join(f"\n  {server}" for server in servers)
        raise ConfigError(f"several model servers run on this machine; name the URL of one:{listed}")
    return servers[0]


async def find_servers() -> list[FoundServer]:
    """Return the model servers that listen on the usual ports of this machine, in the order of `PORTS`."""
    import httpx  # noqa: PLC0415 - a slow import, only for the search

    async with httpx.AsyncClient(trust_env=False, timeout=_PROBE_TIMEOUT) as client:
        found = await asyncio.gather(*(_probe(client, f"http://127.0.0.1:{port}") for port in PORTS))
    return [server for server in found if server is not None]


async def _probe(client: "httpx.AsyncClient", url: str) -> FoundServer | None:
    """Return the server at this address, if it lists models or asks for a key as an API does."""
    import httpx  # noqa: PLC0415 - see above

    try:
        async with asyncio.timeout(_PROBE_TIMEOUT):
            listed, health = await asyncio.gather(client.get(f"{url}/v1/models"), client.get(f"{url}/health"))
    except (httpx.HTTPError, TimeoutError):
        return None
    document = _decode(listed)
    if health.headers.get("server") == OWN_SERVER or not isinstance(document, dict):
        return None
    if listed.status_code in (401, 403):
        return FoundServer(url, (), "a server that needs --upstream-key") if document.get("error") else None
    if listed.status_code != 200 or not isinstance(document.get("data"), list):
        return None
    from fcshim.codecs.upstreams import UPSTREAMS  # noqa: PLC0415 - a slow import, after something was found

    return FoundServer(url, tuple(UPSTREAMS["openai"].codec.decode_models(listed.content)), await _detect_kind(url))


async def _detect_kind(url: str) -> str:
    from fcshim.upstream import Upstream  # noqa: PLC0415 - see above
    from fcshim.upstream.detection import detect  # noqa: PLC0415 - see above

    try:
        async with asyncio.timeout(_DETECTION_TIMEOUT), Upstream(url) as upstream:
            return (await detect(upstream)).backend.name
    except (UpstreamError, TimeoutError):
        return "unknown kind"


def _decode(response: "httpx.Response") -> JSON:
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None
