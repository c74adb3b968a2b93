"""Every setting of fcshim as a field with its type, default, bounds and help.

Rule: a setting is defined here only, or in `model_settings` if each model may have its own; its flag, variable, TOML
key, validation and help are derived from the field.
"""

import fnmatch
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from fcshim.codecs.upstreams import UpstreamApi
from fcshim.config.model_settings import About, Group, ModelConfig, ModelOverrides, ModelSettings
from fcshim.config.secret import Secret
from fcshim.config.store_address import MEMORY
from fcshim.config.upstreams import UpstreamConfig
from fcshim.errors import ConfigError
from fcshim.pipeline.backends import BACKENDS

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]

_PATTERN_CHARACTERS = frozenset("*?[")
_Seconds = Annotated[float, Meta(gt=0, le=86_400)]
_SecondsOrNever = Annotated[float, Meta(ge=0, le=86_400)]

OWN_TOOLS: Group = "fcshim's own tools"
"""The group of the settings of Read, Bash, WebFetch and so on, which `chat` and `mcp` offer."""


class Config(ModelSettings, frozen=True, kw_only=True):
    """All settings. Make one with `load_config`; the constructor validates nothing."""

    upstream: Annotated[
        str,
        About(
            "upstream",
            "the endpoint behind fcshim, with or without /v1",
            "URL",
            default="the model server found on this machine",
            common=True,
        ),
    ] = "http://127.0.0.1:8080"
    upstream_api: Annotated[UpstreamApi, About("upstream", "the API that the endpoint speaks", common=True)] = "openai"
    upstream_key: Annotated[Secret | None, About("upstream", "API key for the upstream", "KEY", common=True)] = None
    forward_client_key: Annotated[bool, About("upstream", "send the client's own API key to the upstream")] = False

    host: Annotated[
        str, About("listening", "address to listen on; one that other machines reach needs --api-key", "H", common=True)
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65_535), About("listening", "port to listen on; 0 picks a free one", "P", common=True)
    ] = 8181

    workers: Annotated[
        int,
        Meta(ge=1, le=64),
        About("listening", "processes that serve the port, each with one core", "COUNT", common=True),
    ] = 1

    constrain: Annotated[
        str,
        About(
            "tool calls",
            f"constrain required calls to their schemas: auto, off, or a kind of server ({', '.join(BACKENDS)})",
            "NAME",
        ),
    ] = "auto"

    tool_limit: Annotated[
        int,
        Meta(gt=0, le=512),
        About(
            "limits",
            "maximum number of tools in a request; with --max-tools, of those that the prompt describes",
            "COUNT",
        ),
    ] = 128
    api_keys: Annotated[
        tuple[Secret, ...],
        About("security", "key that a client must send; may be given several times", "KEY", common=True),
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...], About("security", "additional host name that requests may address", "HOST")
    ] = ()
    allow_origins: Annotated[
        tuple[str, ...],
        About("security", "web origin that may send requests from a browser (* for all)", "ORIGIN"),
    ] = ()

    connect_timeout: Annotated[_Seconds, About("time", "limit for connecting to the upstream", "SECONDS")] = 10.0
    first_chunk_timeout: Annotated[
        _Seconds,
        About(
            "time", "limit for the upstream's first byte; long, since a CPU needs minutes for a long prompt", "SECONDS"
        ),
    ] = 600.0
    chunk_timeout: Annotated[_Seconds, About("time", "limit between two reads from the upstream", "SECONDS")] = 300.0
    head_timeout: Annotated[_Seconds, About("time", "limit for the head of a request", "SECONDS")] = 10.0
    body_timeout: Annotated[_Seconds, About("time", "limit between two parts of a request's body", "SECONDS")] = 60.0
    ping: Annotated[
        _SecondsOrNever,
        About("time", "silence in a stream after which the client gets a ping; 0 for never", "SECONDS"),
    ] = 15.0
    first_ping: Annotated[
        _SecondsOrNever,
        About(
            "time",
            "silence before a stream's first event after which it gets a ping, and so status 200; 0 for never",
            "SECONDS",
        ),
    ] = 60.0
    drain_timeout: Annotated[
        _SecondsOrNever, About("time", "time for running streams to finish after SIGTERM", "SECONDS")
    ] = 60.0

    max_body: Annotated[int, Meta(gt=0), About("limits", "maximum size of a request body", "BYTES")] = 32 * 2**20
    max_headers: Annotated[int, Meta(gt=0), About("limits", "maximum size of a request head", "BYTES")] = 64 * 2**10
    max_reply: Annotated[
        int, Meta(gt=0), About("limits", "maximum memory for a reply that is not streamed", "BYTES")
    ] = 64 * 2**20
    memory_entries: Annotated[
        int,
        Meta(ge=0),
        About("limits", "maximum number of remembered replies and turns, of all clients together", "COUNT"),
    ] = 10_000
    memory_bytes: Annotated[
        int, Meta(ge=0), About("limits", "maximum size of all remembered replies and turns", "BYTES")
    ] = 64 * 2**20
    memory_client_bytes: Annotated[
        int,
        Meta(ge=0),
        About("limits", "maximum size of the remembered replies and turns of one client key", "BYTES"),
    ] = 64 * 2**20
    memory_lifetime: Annotated[
        int,
        Meta(gt=0, le=3_650 * 86_400),
        About("limits", "time after which a reply or turn is forgotten", "SECONDS"),
    ] = 30 * 86_400

    mcp: Annotated[
        str | None,
        About("tools that run here", "JSON file of MCP servers whose tools every request gets", "FILE", common=True),
    ] = None
    allow: Annotated[
        tuple[str, ...],
        About(
            "tools that run here",
            "tools that may run, besides read-only ones: server:tool, or *",
            "PATTERN",
            common=True,
        ),
    ] = ()
    strict_packages: Annotated[
        bool,
        About(
            "tools that run here", "refuse MCP servers that load a package without its exact version, such as npx NAME"
        ),
    ] = False
    web_search: Annotated[
        str | None,
        About(
            "tools that run here",
            "service for web search (WebSearch, and tools of providers): tavily, brave, jina, the URL of a SearXNG, or "
            "provider, in a chat: the search of the upstream's own API",
            "SERVICE",
        ),
    ] = None
    web_search_key: Annotated[Secret | None, About("tools that run here", "API key for the search service", "KEY")] = (
        None
    )
    max_rounds: Annotated[
        int,
        Meta(ge=1),
        About(
            "tools that run here", "maximum number of model replies to one request while the model calls tools", "COUNT"
        ),
    ] = 16
    pins: Annotated[
        str | None,
        About(
            "tools that run here",
            "JSON file of the approved definitions of tools; a changed tool waits for approval",
            "FILE",
        ),
    ] = None

    max_chars: Annotated[
        int,
        Meta(ge=0),
        About(
            OWN_TOOLS,
            "maximum size of a result; of a longer one, its beginning and end; 0: 51200, or the tool's own limit",
            "CHARACTERS",
        ),
    ] = 0
    exec_timeout: Annotated[_Seconds, About(OWN_TOOLS, "limit for one command of Bash", "SECONDS")] = 120.0
    restrict_to_workspace: Annotated[bool, About(OWN_TOOLS, "refuse paths of files outside the folder of --root")] = (
        True
    )
    background_model: Annotated[
        str,
        About(
            OWN_TOOLS,
            "model that reads web pages for the model and sums up conversations, of the same endpoint",
            "NAME",
        ),
    ] = ""

    store: Annotated[
        str,
        About(
            "running",
            "where replies and turns are remembered: memory, sqlite:PATH, or redis://HOST:PORT (rediss://, valkey://)",
            "STORE",
        ),
    ] = MEMORY
    store_key: Annotated[Secret | None, About("running", "password of the store's server (Redis or Valkey)", "KEY")] = (
        None
    )

    log_level: Annotated[LogLevel, About("running", "minimum level of the messages on stderr", common=True)] = "info"
    log_format: Annotated[LogFormat, About("running", "format of the messages on stderr: text, or JSON lines")] = "text"

    inspect: Annotated[
        bool, About("running", "show requests and replies, without credentials, in a browser at /fcshim/", common=True)
    ] = False
    inspect_port: Annotated[
        int,
        Meta(ge=0, le=65_535),
        About("running", "port of the page of --inspect, which has an origin of its own; 0 picks a free one", "P"),
    ] = 8183
    inspect_bytes: Annotated[
        int,
        Meta(ge=2**16),
        About("running", "memory for the requests that --inspect shows; older ones are dropped", "BYTES"),
    ] = 16 * 2**20

    metrics: Annotated[bool, About("running", "serve metrics for Prometheus at /metrics")] = False

    record: Annotated[
        str | None,
        About("running", "write each request and its reply, without credentials, to a file in this folder", "FOLDER"),
    ] = None
    record_bytes: Annotated[
        int,
        Meta(gt=0),
        About("running", "maximum size of the folder of records; when it is full, nothing more is recorded", "BYTES"),
    ] = 2**30

    models: dict[str, ModelOverrides] = {}
    """By model name or pattern (`qwen*`); an exact name wins, else the first pattern that matches."""

    @property
    def aliases(self) -> dict[str, str]:
        """The names, without patterns, that the settings give to models, and the upstream's names for them."""
        rows = {name: row.upstream_model for name, row in self.models.items() if not _PATTERN_CHARACTERS & set(name)}
        return {name: model for name, model in rows.items() if model}

    upstreams: dict[str, UpstreamConfig] = {}
    """Several upstreams by name, in place of `upstream`; empty for one."""

    def for_model(self, name: str) -> ModelConfig:
        """Return the settings for the model of that name."""
        return self.merged_with(self.row_of(name))

    def row_of(self, name: str) -> ModelOverrides | None:
        """Return the row of `models` for a model."""
        return self.models.get(name) or next(
            (row for pattern, row in self.models.items() if fnmatch.fnmatchcase(name, pattern)), None
        )

    def upstreams_of(self, name: str) -> tuple[str, ...]:
        """Return the names of the upstreams that `models` gives to a model: of its own row, else of the first pattern.

        Rows that name no upstream are passed over, so that one row may choose the upstream and another the dialect. For
        `upstream/model`, only patterns with that prefix count, so that `*` does not override the client's choice.
        """
        prefix, slash, _ = name.partition("/")
        start = prefix + slash if slash and prefix in self.upstreams else ""
        own = self.models.get(name)
        rows = [] if own is None else [own]
        rows += [
            row
            for pattern, row in self.models.items()
            if pattern.startswith(start) and fnmatch.fnmatchcase(name, pattern)
        ]
        found = next((row.upstream for row in rows if row.upstream), ())
        return (found,) if isinstance(found, str) else tuple(found)


def endpoint_url(text: str) -> str:
    """Return the URL of an endpoint; an address without a scheme gets `http://`."""
    return text if "://" in text else f"http://{text}"


def host_and_port(host: str, port: int) -> str:
    """Return `host:port`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_address(text: str, location: str) -> None:
    """Raise `ConfigError` for an invalid address of an endpoint; `location` names the setting.

    An address that may contain a key is invalid, too, since logs and messages show addresses.
    """
    if any(character in text for character in "@?#"):
        raise ConfigError(f"{location}: expected a URL without user, query and fragment; a key has its own setting")
    if not _is_usable(text):
        raise ConfigError(f"{location}: expected a URL such as http://127.0.0.1:8080, got {text!r:.80}")


def _is_usable(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        return False
