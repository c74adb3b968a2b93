"""The page that a browser gets at `/`: the server behind the proxy, how each model is asked, one line for each client.

Rule: static HTML without script; whatever comes from the upstream or the request is escaped.
"""

import base64
import functools
import hashlib
import re
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

from fcshim.config import Config, host_and_port
from fcshim.errors import UpstreamError
from fcshim.resources import resource_dir
from fcshim.server.client_connection import ClientConnection
from fcshim.upstream import Upstream
from fcshim.upstream.capabilities import Capabilities
from fcshim.upstream.detection import detect
from fcshim.upstream.model_report import ModelReport

if TYPE_CHECKING:
    from jinja2 import Template

_MAX_MODELS = 200
"""Models on the page; a hosted endpoint lists hundreds."""
_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}th,td{text-align:left;padding:.2em 1em .2em 0}"
    "pre{background:#8882;padding:.5em;overflow:auto}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS = [
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'".encode(),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"vary", b"Accept"),
]
_HOST = re.compile(rb"[A-Za-z0-9.-]+(?::\d+)?|\[[0-9A-Fa-f:.]+\](?::\d+)?")
"""A host that may stand in a line to be copied into a shell."""

CLIENTS = {
    "openai_chat": ("OpenAI: Chat Completions", "export OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY={key}"),
    "openai_responses": ("OpenAI: Responses", "export OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY={key}"),
    "anthropic": ("Anthropic", "export ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN={key}"),
    "gemini": ("Gemini", "export GOOGLE_GEMINI_BASE_URL={url} GEMINI_API_KEY={key}"),
    "ollama": ("Ollama", "export OLLAMA_HOST={url}"),
}
"""For each client API its name and the line that points a client here."""


def prefers_html(connection: ClientConnection) -> bool:
    """Return whether the client is a browser, which names HTML; Ollama's clients accept JSON or anything."""
    return b"text/html" in connection.header(b"accept").lower()


Reports = Callable[[], Awaitable[list[ModelReport]]]
"""Returns a report for every model of every upstream. Raises `UpstreamError`."""


class ServerDescription(NamedTuple):
    """The server behind the proxy: its kind, the evidence for it, and its address."""

    kind: str
    evidence: str
    address: str


async def serve_status_page(
    connection: ClientConnection, config: Config, capabilities: Capabilities, reports: Reports
) -> None:
    """Answer with the page; the page says if an upstream cannot be reached."""
    server = await describe_server(config, capabilities.upstream)
    models: list[ModelReport] = []
    problem = ""
    try:
        models = await reports()
    except UpstreamError as error:
        problem = error.message
    host = connection.header(b"host")
    page = _template().render(
        style=_STYLE,
        version=version("fcshim"),
        server=server.kind,
        evidence=server.evidence,
        upstream=server.address,
        models=models[:_MAX_MODELS],
        omitted=max(len(models) - _MAX_MODELS, 0),
        problem=problem,
        clients=client_lines(
            f"http://{host.decode() if _HOST.fullmatch(host) else host_and_port(config.host, config.port)}",
            "KEY" if config.api_keys else "none",
        ),
    )
    connection.prepare(200, HEADERS)
    await connection.end(page.encode())


def client_lines(url: str, key: str) -> list[tuple[str, str]]:
    """Return the name of each client API, and the line that points a client at this address."""
    return [(name, line.format(url=url, key=key)) for name, line in CLIENTS.values()]


async def describe_server(config: Config, upstream: Upstream) -> ServerDescription:
    """Return the description of the server behind the proxy; with several upstreams, only their names."""
    if config.upstreams:
        return ServerDescription("several upstreams", "", ", ".join(config.upstreams))
    if not upstream.kind.full_openai_api:
        return ServerDescription(f"an endpoint with the API {upstream.kind.name!r}", "", upstream.url)
    try:
        found = await detect(upstream)
    except UpstreamError as error:
        return ServerDescription("a server that does not answer", error.message, upstream.url)
    return ServerDescription(found.backend.name, found.evidence, upstream.url)


@functools.cache
def _template() -> "Template":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - only browsers need it

    loader = FileSystemLoader(resource_dir("templates") / "_pages")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template("status.html")
