"""Every setting of fcshim as a field with its type, default, bounds and help.

Rule: a setting is defined here only; its flag, variable, TOML key, validation and help are derived from the field.
"""

import fnmatch
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from fcshim.codecs.upstreams import UpstreamApi
from fcshim.config.secret import Secret
from fcshim.config.store_address import MEMORY
from fcshim.config.upstreams import UpstreamConfig
from fcshim.errors import ConfigError
from fcshim.parse.dialect import Dialect
from fcshim.pipeline.backends import BACKENDS
from fcshim.prompt.content import DEFAULT_MAX_RESULT
from fcshim.prompt.profiles import PROFILES, Profile
from fcshim.prompt.styles import PROMPT_STYLES, ToolsListing

ReasoningPolicy = Literal["ignore", "recover", "promote"]
ArgumentsPolicy = Literal["stream", "validated"]
ToolsPolicy = Literal["prompt", "native", "auto"]
CutPromptPolicy = Literal["fit", "error", "off"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]


Retries = Annotated[int, Meta(ge=0, le=5)]


class ModelOverrides(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings in a `[models."pattern"]` table; None takes the general setting."""

    dialect: str | None = None
    profile: str | None = None
    prompt_style: str | None = None
    tools_style: ToolsListing | None = None
    rescue: bool | None = None
    reasoning: ReasoningPolicy | None = None
    open_reasoning_tag: str | None = None
    arguments: ArgumentsPolicy | None = None
    max_tools: Annotated[int, Meta(ge=0)] | None = None
    prompt_budget: Annotated[int, Meta(ge=0)] | None = None
    max_result: Annotated[int, Meta(ge=0)] | None = None
    cut_prompt: CutPromptPolicy | None = None
    repeatable_tools: tuple[str, ...] | None = None
    num_ctx: Annotated[int, Meta(ge=0)] | None = None
    tools: ToolsPolicy | None = None
    max_retries: Retries | None = None
    upstream_model: Annotated[str, Meta(min_length=1)] | None = None
    upstream: str | list[str] | None = None
    """The names of the upstreams that serve the model, in the order in which they are tried."""


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one model; `upstream_model` is its name on the upstream, if that differs.

    `real_name` is the name by which automatic settings are chosen, if evidence about the model says so (see
    `upstream.model_resolution`), and `dialect_reason` says why it has its dialect.
    """

    dialect: str | Dialect
    profile: str | Profile
    rescue: bool
    reasoning: ReasoningPolicy
    arguments: ArgumentsPolicy
    tools: ToolsPolicy = "auto"
    prompt_style: str = "auto"
    tools_style: ToolsListing = "auto"
    open_reasoning_tag: str = ""
    max_tools: int = 0
    prompt_budget: int = 0
    max_result: int = DEFAULT_MAX_RESULT
    cut_prompt: CutPromptPolicy = "fit"
    repeatable_tools: tuple[str, ...] = ()
    num_ctx: int = 0
    max_retries: int = 1
    upstream_model: str | None = None
    real_name: str | None = None
    dialect_reason: str | None = None

    def with_tools_settled(self) -> "ModelConfig":
        """Return the settings with `tools` as the other ones imply: a setting that only prompts have asks for one."""
        asks_for_prompt = any(getattr(self, name) != value for name, value in _PROMPT_DEFAULTS.items())
        return msgspec.structs.replace(self, tools="prompt") if self.tools == "auto" and asks_for_prompt else self


_PROMPT_DEFAULTS = {
    "dialect": "auto",
    "prompt_style": "auto",
    "tools_style": "auto",
    "arguments": "stream",
    "max_tools": 0,
    "prompt_budget": 0,
}
"""The settings that native tools cannot have, with their defaults."""
_PATTERN_CHARACTERS = frozenset("*?[")
_Seconds = Annotated[float, Meta(gt=0, le=86_400)]
_SecondsOrNever = Annotated[float, Meta(ge=0, le=86_400)]


OWN_TOOLS = "fcshim's own tools"
"""The group of the settings of Read, Bash, WebFetch and so on, which `chat` and `mcp` offer."""


def _setting_meta(group: str, text: str, metavar: str = "", default: str = "") -> Meta:
    """Return the group and help of a setting; `default` is shown in place of the field's own default."""
    return Meta(description=text, extra={"group": group, "metavar": metavar, "default": default})


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """All settings. Make one with `load_config`; the constructor validates nothing."""

    upstream: Annotated[
        str,
        _setting_meta(
            "upstream",
            "the endpoint behind fcshim, with or without /v1",
            "URL",
            default="the model server found on this machine",
        ),
    ] = "http://127.0.0.1:8080"
    upstream_api: Annotated[UpstreamApi, _setting_meta("upstream", "the API that the endpoint speaks")] = "openai"
    upstream_key: Annotated[Secret | None, _setting_meta("upstream", "API key for the upstream", "KEY")] = None
    forward_client_key: Annotated[bool, _setting_meta("upstream", "send the client's own API key to the upstream")] = (
        False
    )

    host: Annotated[
        str, _setting_meta("listening", "address to listen on; one that other machines reach needs --api-key", "H")
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65_535), _setting_meta("listening", "port to listen on; 0 picks a free one", "P")
    ] = 8181

    workers: Annotated[
        int,
        Meta(ge=1, le=64),
        _setting_meta("listening", "processes that serve the port, each with one core", "COUNT"),
    ] = 1

    tools: Annotated[
        ToolsPolicy,
        _setting_meta(
            "tool calls",
            "tool calling: through the prompt, the endpoint's own (native), or auto, by evidence about each model",
        ),
    ] = "auto"
    dialect: Annotated[
        str,
        _setting_meta(
            "tool calls",
            "format of the calls (`fcshim dialects`, a folder, or a model's tokenizer_config.json); auto chooses by "
            "the model name",
            "NAME",
        ),
    ] = "auto"
    profile: Annotated[
        str,
        _setting_meta(
            "tool calls",
            f"what the upstream accepts, joined by +; auto chooses by the model name ({', '.join(PROFILES)})",
            "NAME",
        ),
    ] = "auto"
    prompt_style: Annotated[
        str,
        _setting_meta(
            "tool calls",
            f"the words that offer the tools ({', '.join(PROMPT_STYLES)}); auto takes what was measured for the model",
            "NAME",
        ),
    ] = "auto"
    tools_style: Annotated[
        ToolsListing,
        _setting_meta(
            "tool calls",
            "how the prompt lists tools: by JSON Schema, or by signatures, which are shorter; auto is the style's own",
        ),
    ] = "auto"
    rescue: Annotated[bool, _setting_meta("tool calls", "also read calls of offered tools in other formats")] = True
    reasoning: Annotated[
        ReasoningPolicy,
        _setting_meta(
            "tool calls",
            "calls inside reasoning: ignore them, recover one that ends unclosed reasoning, or promote all",
        ),
    ] = "ignore"
    open_reasoning_tag: Annotated[
        str,
        _setting_meta(
            "tool calls", "reasoning tag that the model's chat template opens in the prompt, such as <think>", "TAG"
        ),
    ] = ""
    arguments: Annotated[
        ArgumentsPolicy,
        _setting_meta("tool calls", "send arguments as the model writes them (stream), or complete and validated"),
    ] = "stream"
    max_tools: Annotated[
        int,
        Meta(ge=0),
        _setting_meta(
            "prompt",
            "number of tools that the prompt describes, the most relevant ones; others are only named; 0 for all",
            "COUNT",
        ),
    ] = 0
    tool_limit: Annotated[
        int,
        Meta(gt=0, le=512),
        _setting_meta(
            "limits",
            "maximum number of tools in a request; with --max-tools, of those that the prompt describes",
            "COUNT",
        ),
    ] = 128
    prompt_budget: Annotated[
        int,
        Meta(ge=0),
        _setting_meta(
            "prompt",
            "maximum size of the prompt; beyond it, old results and then tools are shortened; 0 for no limit",
            "TOKENS",
        ),
    ] = 0
    max_result: Annotated[
        int,
        Meta(ge=0),
        _setting_meta(
            "prompt",
            "maximum size of a tool result in the prompt; of a longer one, its beginning and end; 0 for no limit",
            "CHARACTERS",
        ),
    ] = DEFAULT_MAX_RESULT

    cut_prompt: Annotated[
        CutPromptPolicy,
        _setting_meta(
            "prompt",
            "when the upstream has read only a part of a prompt: fit the next ones to what it reads, also end the "
            "reply with an error, or do not look for it (off)",
        ),
    ] = "fit"
    num_ctx: Annotated[
        int,
        Meta(ge=0),
        _setting_meta(
            "prompt",
            "context length that Ollama is asked for, with --upstream-api ollama, unless the client asks for one; 0 "
            "leaves it to Ollama",
            "TOKENS",
        ),
    ] = 0
    repeatable_tools: Annotated[
        tuple[str, ...],
        _setting_meta(
            "prompt",
            "tool that may be called again and again with the same result, such as one that polls; * for all",
            "PATTERN",
        ),
    ] = ()

    constrain: Annotated[
        str,
        _setting_meta(
            "tool calls",
            f"constrain required calls to their schemas: auto, off, or a kind of server ({', '.join(BACKENDS)})",
            "NAME",
        ),
    ] = "auto"

    max_retries: Annotated[
        Retries,
        _setting_meta("tool calls", "retries after a missing or invalid call; 0 for none", "N"),
    ] = 1

    api_keys: Annotated[
        tuple[Secret, ...], _setting_meta("security", "key that a client must send; may be given several times", "KEY")
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...], _setting_meta("security", "additional host name that requests may address", "HOST")
    ] = ()
    allow_origins: Annotated[
        tuple[str, ...],
        _setting_meta("security", "web origin that may send requests from a browser (* for all)", "ORIGIN"),
    ] = ()

    connect_timeout: Annotated[_Seconds, _setting_meta("time", "limit for connecting to the upstream", "SECONDS")] = (
        10.0
    )
    first_chunk_timeout: Annotated[
        _Seconds,
        _setting_meta(
            "time", "limit for the upstream's first byte; long, since a CPU needs minutes for a long prompt", "SECONDS"
        ),
    ] = 600.0
    chunk_timeout: Annotated[
        _Seconds, _setting_meta("time", "limit between two reads from the upstream", "SECONDS")
    ] = 300.0
    head_timeout: Annotated[_Seconds, _setting_meta("time", "limit for the head of a request", "SECONDS")] = 10.0
    body_timeout: Annotated[
        _Seconds, _setting_meta("time", "limit between two parts of a request's body", "SECONDS")
    ] = 60.0
    ping: Annotated[
        _SecondsOrNever,
        _setting_meta("time", "silence in a stream after which the client gets a ping; 0 for never", "SECONDS"),
    ] = 15.0
    first_ping: Annotated[
        _SecondsOrNever,
        _setting_meta(
            "time",
            "silence before a stream's first event after which it gets a ping, and so status 200; 0 for never",
            "SECONDS",
        ),
    ] = 60.0
    drain_timeout: Annotated[
        _SecondsOrNever, _setting_meta("time", "time for running streams to finish after SIGTERM", "SECONDS")
    ] = 60.0

    max_body: Annotated[int, Meta(gt=0), _setting_meta("limits", "maximum size of a request body", "BYTES")] = (
        32 * 2**20
    )
    max_headers: Annotated[int, Meta(gt=0), _setting_meta("limits", "maximum size of a request head", "BYTES")] = (
        64 * 2**10
    )
    max_reply: Annotated[
        int, Meta(gt=0), _setting_meta("limits", "maximum memory for a reply that is not streamed", "BYTES")
    ] = 64 * 2**20
    memory_entries: Annotated[
        int,
        Meta(ge=0),
        _setting_meta("limits", "maximum number of remembered replies and turns, of all clients together", "COUNT"),
    ] = 10_000
    memory_bytes: Annotated[
        int, Meta(ge=0), _setting_meta("limits", "maximum size of all remembered replies and turns", "BYTES")
    ] = 64 * 2**20
    memory_client_bytes: Annotated[
        int,
        Meta(ge=0),
        _setting_meta("limits", "maximum size of the remembered replies and turns of one client key", "BYTES"),
    ] = 64 * 2**20
    memory_lifetime: Annotated[
        int,
        Meta(gt=0, le=3_650 * 86_400),
        _setting_meta("limits", "time after which a reply or turn is forgotten", "SECONDS"),
    ] = 30 * 86_400

    mcp: Annotated[
        str | None,
        _setting_meta("tools that run here", "JSON file of MCP servers whose tools every request gets", "FILE"),
    ] = None
    allow: Annotated[
        tuple[str, ...],
        _setting_meta(
            "tools that run here", "tools that may run, besides read-only ones: server:tool, or *", "PATTERN"
        ),
    ] = ()
    strict_packages: Annotated[
        bool,
        _setting_meta(
            "tools that run here", "refuse MCP servers that load a package without its exact version, such as npx NAME"
        ),
    ] = False
    web_search: Annotated[
        str | None,
        _setting_meta(
            "tools that run here",
            "service for web search (WebSearch, and tools of providers): tavily, brave, jina, or the URL of a SearXNG",
            "SERVICE",
        ),
    ] = None
    web_search_key: Annotated[
        Secret | None, _setting_meta("tools that run here", "API key for the search service", "KEY")
    ] = None
    max_rounds: Annotated[
        int,
        Meta(ge=1),
        _setting_meta(
            "tools that run here", "maximum number of model replies to one request while the model calls tools", "COUNT"
        ),
    ] = 16
    pins: Annotated[
        str | None,
        _setting_meta(
            "tools that run here",
            "JSON file of the approved definitions of tools; a changed tool waits for approval",
            "FILE",
        ),
    ] = None

    max_chars: Annotated[
        int,
        Meta(ge=0),
        _setting_meta(
            OWN_TOOLS,
            "maximum size of a result; of a longer one, its beginning and end; 0: 51200, or the tool's own limit",
            "CHARACTERS",
        ),
    ] = 0
    exec_timeout: Annotated[_Seconds, _setting_meta(OWN_TOOLS, "limit for one command of Bash", "SECONDS")] = 120.0
    restrict_to_workspace: Annotated[
        bool, _setting_meta(OWN_TOOLS, "refuse paths of files outside the folder of --root")
    ] = True
    background_model: Annotated[
        str,
        _setting_meta(
            OWN_TOOLS,
            "model that reads web pages for the model and sums up conversations, of the same endpoint",
            "NAME",
        ),
    ] = ""

    store: Annotated[
        str,
        _setting_meta(
            "running",
            "where replies and turns are remembered: memory, sqlite:PATH, or redis://HOST:PORT (rediss://, valkey://)",
            "STORE",
        ),
    ] = MEMORY
    store_key: Annotated[
        Secret | None, _setting_meta("running", "password of the store's server (Redis or Valkey)", "KEY")
    ] = None

    log_level: Annotated[LogLevel, _setting_meta("running", "minimum level of the messages on stderr")] = "info"
    log_format: Annotated[
        LogFormat, _setting_meta("running", "format of the messages on stderr: text, or JSON lines")
    ] = "text"

    inspect: Annotated[
        bool, _setting_meta("running", "show requests and replies, without credentials, in a browser at /fcshim/")
    ] = False
    inspect_bytes: Annotated[
        int,
        Meta(ge=2**16),
        _setting_meta("running", "memory for the requests that --inspect shows; older ones are dropped", "BYTES"),
    ] = 16 * 2**20

    metrics: Annotated[bool, _setting_meta("running", "serve metrics for Prometheus at /metrics")] = False

    record: Annotated[
        str | None,
        _setting_meta(
            "running", "write each request and its reply, without credentials, to a file in this folder", "FOLDER"
        ),
    ] = None
    record_bytes: Annotated[
        int,
        Meta(gt=0),
        _setting_meta(
            "running", "maximum size of the folder of records; when it is full, nothing more is recorded", "BYTES"
        ),
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

    def merged_with(self, row: ModelOverrides | None) -> ModelConfig:
        """Return the general settings with those of a row."""
        fields = ModelConfig.__struct_fields__
        general = {field: getattr(self, field, None) for field in fields}
        special = {field: value for field in fields if (value := getattr(row, field, None)) is not None}
        return ModelConfig(**{**general, **special}).with_tools_settled()

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
