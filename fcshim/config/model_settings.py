"""The settings that each model may have for itself, in a `[models."pattern"]` table of the file.

Rule: such a setting is a field of `ModelSettings`, and only there has it its default, bounds and help; `ModelOptions`
repeats its name and type for type checkers, since a keyword argument can have them from nowhere else.
"""

import functools
from collections.abc import Mapping
from typing import Annotated, Literal, TypedDict, get_args

import msgspec
from msgspec import Meta

from fcshim.events import JSON
from fcshim.parse.dialect import Dialect
from fcshim.parse.machine.known_markers import reasoning_end_tag
from fcshim.prompt.content import DEFAULT_MAX_RESULT
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.prompt.profiles import PROFILES, Profile, chosen_profile
from fcshim.prompt.styles import PROMPT_STYLES, ToolsListing, chosen_style

ReasoningPolicy = Literal["ignore", "recover", "promote"]
ArgumentsPolicy = Literal["stream", "validated"]
ToolsPolicy = Literal["prompt", "native", "auto"]
CutPromptPolicy = Literal["fit", "error", "off"]
InvalidCallsPolicy = Literal["deliver", "error"]
ToolSearch = Literal["words", "translated"]
Group = Literal[
    "upstream",
    "listening",
    "tool calls",
    "prompt",
    "limits",
    "security",
    "time",
    "tools that run here",
    "fcshim's own tools",
    "running",
]
"""What settings are grouped by in help texts, in this order."""


class About(msgspec.Struct, frozen=True):
    """The group and help of a setting; `default` is shown in place of the field's own default.

    `for_prompt`: native tools cannot have the setting, so a value other than its default asks for the prompt.
    `common`: the short help of a command shows it.
    """

    group: Group
    help: str
    metavar: str = ""
    default: str = ""
    for_prompt: bool = False
    common: bool = False


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of all models, as `Config` has them, or of one model. The constructor validates nothing."""

    tools: Annotated[
        ToolsPolicy,
        About(
            "tool calls",
            "tool calling: through the prompt, the endpoint's own (native), or auto, by evidence about each model",
            common=True,
        ),
    ] = "auto"
    dialect: Annotated[
        str | Dialect,
        About(
            "tool calls",
            "format of the calls (`fcshim dialects`, a folder, or a model's tokenizer_config.json); auto chooses by "
            "the model name",
            "NAME",
            for_prompt=True,
            common=True,
        ),
    ] = "auto"
    profile: Annotated[
        str | Profile,
        About(
            "tool calls",
            f"what the upstream accepts, joined by +; auto chooses by the model name ({', '.join(PROFILES)})",
            "NAME",
        ),
    ] = "auto"
    prompt_style: Annotated[
        str,
        About(
            "tool calls",
            f"the words that offer the tools ({', '.join(PROMPT_STYLES)}); auto takes what was measured for the model",
            "NAME",
            for_prompt=True,
        ),
    ] = "auto"
    tools_style: Annotated[
        ToolsListing,
        About(
            "tool calls",
            "how the prompt lists tools: as JSON Schema, signatures, or compact (shortest); auto: as the style does",
            for_prompt=True,
        ),
    ] = "auto"
    rescue: Annotated[bool, About("tool calls", "also read calls of offered tools in other formats")] = True
    reasoning: Annotated[
        ReasoningPolicy,
        About(
            "tool calls",
            "calls inside reasoning: ignore them, recover one that ends unclosed reasoning, or promote all",
        ),
    ] = "ignore"
    open_reasoning_tag: Annotated[
        str,
        About("tool calls", "reasoning tag that the model's chat template opens in the prompt, such as <think>", "TAG"),
    ] = ""
    arguments: Annotated[
        ArgumentsPolicy,
        About(
            "tool calls", "send arguments as the model writes them (stream), or complete and validated", for_prompt=True
        ),
    ] = "stream"
    max_tools: Annotated[
        int,
        Meta(ge=0),
        About(
            "prompt",
            "number of tools that the prompt describes, the most relevant ones; others are only named; 0 for all",
            "COUNT",
            for_prompt=True,
            common=True,
        ),
    ] = 0
    tool_search: Annotated[
        ToolSearch,
        About(
            "prompt",
            "where --max-tools leaves tools out, search by the user's words, or also by their translation into English",
            for_prompt=True,
        ),
    ] = "words"
    prompt_budget: Annotated[
        int,
        Meta(ge=0),
        About(
            "prompt",
            "maximum size of the prompt; beyond it, old results and then tools are shortened; 0 for no limit",
            "TOKENS",
            for_prompt=True,
            common=True,
        ),
    ] = 0
    max_result: Annotated[
        int,
        Meta(ge=0),
        About(
            "prompt",
            "maximum size of a tool result in the prompt; of a longer one, its beginning and end; 0 for no limit",
            "CHARACTERS",
        ),
    ] = DEFAULT_MAX_RESULT
    cut_prompt: Annotated[
        CutPromptPolicy,
        About(
            "prompt",
            "when the upstream has read only a part of a prompt: fit the next ones to what it reads, also end the "
            "reply with an error, or do not look for it (off)",
        ),
    ] = "fit"
    num_ctx: Annotated[
        int,
        Meta(ge=0),
        About(
            "prompt",
            "context length that Ollama is asked for, with --upstream-api ollama, unless the client asks for one; 0 "
            "leaves it to Ollama",
            "TOKENS",
        ),
    ] = 0
    repeatable_tools: Annotated[
        tuple[str, ...],
        About(
            "prompt",
            "tool that may be called again and again with the same result, such as one that polls; * for all",
            "PATTERN",
        ),
    ] = ()
    max_retries: Annotated[
        int,
        Meta(ge=0, le=5),
        About("tool calls", "retries after a missing or invalid call; 0 for none", "N"),
    ] = 1
    invalid_calls: Annotated[
        InvalidCallsPolicy,
        About(
            "tool calls",
            "a call whose arguments are still against its schema after all retries: deliver it, with a line in the "
            "log, or end it with an error",
        ),
    ] = "deliver"

    def check_names(self) -> None:
        """Raise `ConfigError` for an unknown dialect, profile, prompt style or reasoning tag."""
        dialect = chosen_dialect(self.dialect, "")
        chosen_profile(self.profile, "")
        chosen_style(self.prompt_style, "", "")
        if self.open_reasoning_tag:
            reasoning_end_tag(self.open_reasoning_tag, dialect.turn.reasoning)

    def merged_with(self, row: "ModelOverrides | None" = None) -> "ModelConfig":
        """Return these settings with those of a row, and `tools` as they imply: some settings need the prompt."""
        own = {name: getattr(self, name) for name in ModelSettings.__struct_fields__}
        row = row or ModelOverrides()
        model = ModelConfig(**{**own, **row.settings}, upstream_model=row.upstream_model)
        if model.tools == "auto" and any(getattr(model, name) != value for name, value in _prompt_defaults().items()):
            return msgspec.structs.replace(model, tools="prompt")
        return model


class ModelConfig(ModelSettings, frozen=True, kw_only=True):
    """The settings of one model; `upstream_model` is its name on the upstream, if that differs.

    `real_name` is the name by which automatic settings are chosen, if evidence about the model says so (see
    `upstream.model_resolution`), and `dialect_reason` says why it has its dialect.
    """

    upstream_model: str | None = None
    real_name: str | None = None
    dialect_reason: str | None = None


class ModelOverrides(msgspec.Struct, frozen=True, kw_only=True):
    """A `[models."pattern"]` table: the settings that it has in place of the general ones, by name.

    `upstream` has the names of the upstreams that serve the model, in the order in which they are tried.
    """

    settings: Mapping[str, JSON] = {}
    upstream_model: Annotated[str, Meta(min_length=1)] | None = None
    upstream: str | list[str] | None = None


class ModelOptions(TypedDict, total=False):
    """The fields of `ModelSettings` as arguments of `Client`, which has `dialect` apart."""

    tools: ToolsPolicy
    profile: str | Profile
    prompt_style: str
    tools_style: ToolsListing
    rescue: bool
    reasoning: ReasoningPolicy
    open_reasoning_tag: str
    arguments: ArgumentsPolicy
    max_tools: int
    tool_search: ToolSearch
    prompt_budget: int
    max_result: int
    cut_prompt: CutPromptPolicy
    num_ctx: int
    repeatable_tools: tuple[str, ...]
    max_retries: int
    invalid_calls: InvalidCallsPolicy


@functools.cache
def _prompt_defaults() -> dict[str, JSON]:
    """Return the settings that native tools cannot have, with their defaults."""
    fields = msgspec.structs.fields(ModelSettings)
    return {each.name: each.default for each in fields if about(each).for_prompt}


def about(field: msgspec.structs.FieldInfo) -> About:
    """Return the description in the type of a setting."""
    return next(each for each in get_args(field.type) if isinstance(each, About))
