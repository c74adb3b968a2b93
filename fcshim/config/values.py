"""What can be set: every setting of fcshim, once, as a field with its type, default, bounds and help.

Rule: a setting is written here and nowhere else; its flag, variable, TOML key, check and help follow from the field.
Neighbours: `table` derives flags and variables, `load` fills a `Config`.
"""

import fnmatch
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fcshim.backends import BACKENDS
from fcshim.codecs.upstreams import UpstreamApi
from fcshim.parse.dialect import Dialect
from fcshim.profiles import PROFILES, Profile
from fcshim.prompt.shortening import DEFAULT_MAX_RESULT
from fcshim.prompt.signature import ToolsStyle

ReasoningPolicy = Literal["ignore", "recover", "promote"]
ArgumentsPolicy = Literal["stream", "validated"]
ToolsPolicy = Literal["prompt", "native", "auto"]
LogLevel = Literal["debug", "info", "warning", "error"]


_MIN_SECRET_LENGTH = 8
"""Characters that a key must have to be told from a word."""


class Secret:
    """A key that never shows itself: not in `repr`, not in `str`, not in an f-string."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Give the key itself."""
        return self._value

    def mask(self, data: bytes) -> bytes:
        """Put asterisks where the key stands, as many; a placeholder of a few letters is no secret, but is in words."""
        key = self._value.encode()
        return data.replace(key, b"*" * len(key)) if len(key) >= _MIN_SECRET_LENGTH else data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret('***')"


Retries = Annotated[int, Meta(ge=0, le=5)]


class ModelOverrides(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a `[models."pattern"]` table may say; what it leaves out is as for every model."""

    dialect: str | None = None
    profile: str | None = None
    tools_style: ToolsStyle | None = None
    rescue: bool | None = None
    reasoning: ReasoningPolicy | None = None
    in_reasoning: str | None = None
    arguments: ArgumentsPolicy | None = None
    max_tools: Annotated[int, Meta(ge=0)] | None = None
    prompt_budget: Annotated[int, Meta(ge=0)] | None = None
    max_result: Annotated[int, Meta(ge=0)] | None = None
    tools: ToolsPolicy | None = None
    max_retries: Retries | None = None
    upstream_model: Annotated[str, Meta(min_length=1)] | None = None


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for one model; `upstream_model` is its name there, where that is another one."""

    dialect: str | Dialect
    profile: str | Profile
    rescue: bool
    reasoning: ReasoningPolicy
    arguments: ArgumentsPolicy
    tools: ToolsPolicy = "prompt"
    tools_style: ToolsStyle = "schema"
    in_reasoning: str = ""
    max_tools: int = 0
    prompt_budget: int = 0
    max_result: int = DEFAULT_MAX_RESULT
    max_retries: int = 1
    upstream_model: str | None = None


_Seconds = Annotated[float, Meta(gt=0, le=86_400)]
_SecondsOrNever = Annotated[float, Meta(ge=0, le=86_400)]


def _setting_meta(group: str, text: str, metavar: str = "") -> Meta:
    return Meta(description=text, extra={"group": group, "metavar": metavar})


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """All settings. Make one with `load_config`, or directly where every value is known to be right."""

    upstream: Annotated[str, _setting_meta("upstream", "the endpoint behind fcshim, with or without /v1", "URL")] = (
        "http://127.0.0.1:8080"
    )
    upstream_api: Annotated[UpstreamApi, _setting_meta("upstream", "the API that the endpoint speaks")] = "openai"
    upstream_key: Annotated[Secret | None, _setting_meta("upstream", "API key for the upstream", "KEY")] = None
    forward_client_key: Annotated[
        bool, _setting_meta("upstream", "send the client's own API key upstream (never done otherwise)")
    ] = False

    host: Annotated[
        str, _setting_meta("listening", "address to listen on; anything but loopback is open to others", "H")
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65_535), _setting_meta("listening", "port to listen on; 0 picks a free one", "P")
    ] = 8181

    tools: Annotated[
        ToolsPolicy,
        _setting_meta(
            "tool calls", "whose tool calling: the prompt's, the endpoint's own (native), or auto, as each model can"
        ),
    ] = "prompt"
    dialect: Annotated[
        str,
        _setting_meta(
            "tool calls", "format of the calls (`fcshim dialects`, or a folder); auto goes by the model name", "NAME"
        ),
    ] = "auto"
    profile: Annotated[
        str,
        _setting_meta(
            "tool calls",
            f"what the upstream accepts, joined by +; auto goes by the model name ({', '.join(PROFILES)})",
            "NAME",
        ),
    ] = "auto"
    tools_style: Annotated[
        ToolsStyle,
        _setting_meta("tool calls", "how the prompt lists tools: by JSON Schema, or by signatures, which are shorter"),
    ] = "schema"
    rescue: Annotated[bool, _setting_meta("tool calls", "also read calls in other formats, for offered tools")] = True
    reasoning: Annotated[
        ReasoningPolicy,
        _setting_meta("tool calls", "calls inside reasoning: ignore, recover the last one, or promote all"),
    ] = "ignore"
    in_reasoning: Annotated[
        str,
        _setting_meta(
            "tool calls", "tag of the reasoning that the model's template has already opened: <think>", "TAG"
        ),
    ] = ""
    arguments: Annotated[
        ArgumentsPolicy, _setting_meta("tool calls", "stream arguments as they come, or only whole and validated")
    ] = "stream"
    max_tools: Annotated[
        int,
        Meta(ge=0),
        _setting_meta(
            "prompt", "tools that are described, the most relevant ones; the others are named; 0 for all", "COUNT"
        ),
    ] = 0
    prompt_budget: Annotated[
        int,
        Meta(ge=0),
        _setting_meta(
            "prompt", "that the prompt may take before old results, then tools get shorter; 0 for all", "TOKENS"
        ),
    ] = 0
    max_result: Annotated[
        int,
        Meta(ge=0),
        _setting_meta("prompt", "shown of a tool's result, its beginning and its end; 0 for all", "CHARACTERS"),
    ] = DEFAULT_MAX_RESULT

    constrain: Annotated[
        str,
        _setting_meta(
            "tool calls",
            f"hold the model to calls that are demanded: auto, off, or a kind of server ({', '.join(BACKENDS)})",
            "NAME",
        ),
    ] = "auto"

    max_retries: Annotated[
        Retries,
        _setting_meta(
            "tool calls", "times that the model is asked once more for a call that came to nothing; 0 for never", "N"
        ),
    ] = 1

    api_keys: Annotated[
        tuple[Secret, ...], _setting_meta("security", "key that a client must send; may be given several times", "KEY")
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...], _setting_meta("security", "further host name under which fcshim may be addressed", "HOST")
    ] = ()
    allow_origins: Annotated[
        tuple[str, ...], _setting_meta("security", "web origin that may call from a browser (* for all)", "ORIGIN")
    ] = ()

    connect_timeout: Annotated[_Seconds, _setting_meta("time", "for connecting to the upstream", "SECONDS")] = 10.0
    first_chunk_timeout: Annotated[
        _Seconds, _setting_meta("time", "until the upstream's first byte; prompts take long on a CPU", "SECONDS")
    ] = 600.0
    chunk_timeout: Annotated[_Seconds, _setting_meta("time", "between two reads from the upstream", "SECONDS")] = 300.0
    ping: Annotated[
        _SecondsOrNever,
        _setting_meta("time", "of silence until a running stream gets a comment; 0 for never", "SECONDS"),
    ] = 15.0
    first_ping: Annotated[
        _SecondsOrNever,
        _setting_meta("time", "the same before the first event; it fixes the status to 200; 0 for never", "SECONDS"),
    ] = 60.0
    drain_timeout: Annotated[
        _SecondsOrNever, _setting_meta("time", "that running streams get to finish after SIGTERM", "SECONDS")
    ] = 60.0

    max_body: Annotated[int, Meta(gt=0), _setting_meta("limits", "largest request body", "BYTES")] = 32 * 2**20
    max_headers: Annotated[int, Meta(gt=0), _setting_meta("limits", "largest request head", "BYTES")] = 64 * 2**10
    max_reply: Annotated[
        int, Meta(gt=0), _setting_meta("limits", "longest reply that is not streamed", "CHARACTERS")
    ] = 64 * 2**20
    memory_entries: Annotated[
        int,
        Meta(ge=0),
        _setting_meta("limits", "replies that are kept for clients to refer to (Responses API)", "COUNT"),
    ] = 1_000
    memory_bytes: Annotated[int, Meta(ge=0), _setting_meta("limits", "what they may take together", "BYTES")] = (
        64 * 2**20
    )

    mcp: Annotated[
        str | None,
        _setting_meta("tools that run here", "JSON file of MCP servers whose tools every request gets", "FILE"),
    ] = None
    allow: Annotated[
        tuple[str, ...],
        _setting_meta(
            "tools that run here", "tools that may run, besides those that only read: server:tool, or *", "PATTERN"
        ),
    ] = ()
    max_rounds: Annotated[
        int,
        Meta(ge=1),
        _setting_meta("tools that run here", "replies of the model to one request, while it calls", "COUNT"),
    ] = 16
    pins: Annotated[
        str | None,
        _setting_meta(
            "tools that run here", "what the tools said of themselves, so that no change goes unnoticed", "FILE"
        ),
    ] = None

    log_level: Annotated[LogLevel, _setting_meta("running", "how much is told on stderr")] = "info"

    models: dict[str, ModelOverrides] = {}
    """By model name or pattern (`qwen*`); an exact name wins, else the first pattern that matches."""

    def for_model(self, name: str) -> ModelConfig:
        """Give what holds for the model of that name."""
        found = self.models.get(name) or next(
            (row for pattern, row in self.models.items() if fnmatch.fnmatchcase(name, pattern)), ModelOverrides()
        )
        general = {field: getattr(self, field, None) for field in ModelConfig.__struct_fields__}
        special = {field: value for field, value in msgspec.structs.asdict(found).items() if value is not None}
        return ModelConfig(**{**general, **special})
