"""The table of backends: how each kind of server is detected, and which constraints and prefills it supports.

Rule: a backend never gets a field that it may not know. The order of the rows matters: some servers also serve the
pages of rows further down, for compatibility.
"""

from dataclasses import dataclass, replace
from typing import Literal

from fcshim.codecs.fill_in_middle import FillInMiddle
from fcshim.codecs.upstreams import UpstreamApi
from fcshim.constrain.constraint import Form
from fcshim.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A page that identifies a server: the JSON document at `path` has `member` (a dotted path; lists by index).

    `value` is a pattern that the member's text contains; `absent` is a member that the page does not have. The status
    is not evidence: LM Studio answers 200 for paths that it does not serve.
    """

    path: str
    member: str
    value: str = ""
    absent: str = ""


Prefill = Literal["plain", "continue_final_message"]
"""How a server continues a last assistant message. `plain`: without being asked. `continue_final_message`: when that
field of the request is true."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One kind of server. `form` is the kind of constraint that it accepts; None for none.

    `owned_by`: values of that field in its list of models that identify it; `fingerprints` are checked if none matches.
    `constrains_auto_choice`: calls are constrained with `tool_choice` "auto", too. `lazy`: that grammar starts only
    when a call may begin, which takes llama-server's `/completion`, after its `/apply-template` has written the prompt.
    `rewrites_response_format`: a client's `response_format` may be replaced by one that also admits calls. `api`: of
    its APIs, the one that reports most about its models. `prefill`: how it continues a last assistant message.
    `starts_servers`: it starts another server for each model, which decides what is accepted. `native_tools`: it never
    ignores tools: it refuses them, or leaves calls in the text, where it cannot read a model's calls.
    """

    name: str
    summary: str
    form: Form | None = None
    owned_by: tuple[str, ...] = ()
    fingerprints: tuple[Fingerprint, ...] = ()
    constrains_auto_choice: bool = False
    lazy: bool = False
    rewrites_response_format: bool = True
    api: UpstreamApi = "openai"
    prefill: Prefill | None = None
    starts_servers: bool = False
    native_tools: bool = False
    fill_in_middle: FillInMiddle | None = None
    """How it takes a prompt with a suffix; None for servers that cannot, or that ignore the suffix."""
    demanded: bool = False
    """Whether the settings name this backend: a required call that cannot be constrained is then an error."""


GENERIC = Backend(
    name="generic",
    summary="any other server: it gets no field that it may not know",
    # Owners that say nothing about the server; with them, detection ends after the list of models.
    owned_by=("openai", "system", "anthropic", "google", "mistralai", "fcshim"),
    fill_in_middle="suffix",
)

OFF = Backend(name="off", summary="no constraint: only the fields that the client sent", rewrites_response_format=False)
"""Stands in for the backend if constraints are switched off or were refused; not a kind of server."""

BACKENDS: dict[str, Backend] = {
    row.name: row
    for row in (
        Backend(
            name="llama-server",
            summary="llama.cpp's server: a grammar",
            form="gbnf",
            owned_by=("llamacpp",),
            fingerprints=(Fingerprint("//props", "default_generation_settings"),),
            api="llamacpp",
            prefill="plain",
            fill_in_middle="infill",
        ),
        Backend(
            name="llama-server-eager",
            summary="the same, also with tool_choice auto: the reply may be text, but a call in it is valid",
            form="gbnf",
            constrains_auto_choice=True,
            api="llamacpp",
            prefill="plain",
            fill_in_middle="infill",
        ),
        Backend(
            name="llama-server-lazy",
            summary="the same, through /completion: the grammar starts when a call may begin",
            form="gbnf",
            constrains_auto_choice=True,
            lazy=True,
            api="llamacpp",
            prefill="plain",
            fill_in_middle="infill",
        ),
        Backend(
            name="llama-cpp-python",
            summary="llama-cpp-python's server: a grammar; an invalid one kills the process",
            form="gbnf",
            owned_by=("me",),
            fill_in_middle="suffix",
        ),
        Backend(
            name="llama-server-llguidance",
            summary="llama.cpp's server, built with LLAMA_LLGUIDANCE: a grammar in Lark",
            form="llguidance",
            api="llamacpp",
            fill_in_middle="infill",
        ),
        Backend(
            name="vllm-guidance",
            summary="vLLM with the structured-outputs backend guidance: a grammar in Lark",
            form="guidance",
            fill_in_middle="suffix",
        ),
        Backend(
            name="llama-swap",
            summary="llama-swap: the constraint of the model's own server, if that is llama-server",
            owned_by=("llama-swap",),
            starts_servers=True,
        ),
        Backend(
            name="koboldcpp",
            summary="KoboldCpp: a grammar",
            form="gbnf",
            owned_by=("koboldcpp",),
        ),
        Backend(
            name="tabbyapi",
            summary="TabbyAPI: no constraint, since its releases differ in what they accept",
            owned_by=("tabbyAPI",),
        ),
        Backend(
            name="localai",
            summary="LocalAI: a grammar, which its llama.cpp backend uses",
            form="gbnf",
            fingerprints=(
                Fingerprint("//system", "loaded_models"),
                Fingerprint("//version", "version", value=r"^\S+ \("),  # `v2.26.0 (a1b2c3d4)`
            ),
        ),
        Backend(
            name="lmstudio",
            summary="LM Studio: a JSON Schema, so calls without tags",
            form="json_schema",
            owned_by=("organization_owner", "organization-owner"),
            fingerprints=(
                Fingerprint("//api/v0/models", "data.0.compatibility_type"),
                Fingerprint("//api/v1/models", "models.0.loaded_instances"),
            ),
            native_tools=True,
        ),
        Backend(
            name="sglang",
            summary="SGLang: a structural tag",
            form="structural_tag",
            owned_by=("sglang",),
            fingerprints=(
                Fingerprint("//server_info", "tokenizer_path"),
                Fingerprint("//get_server_info", "tokenizer_path"),
            ),
            prefill="continue_final_message",
            native_tools=True,
        ),
        Backend(
            name="ollama",
            summary="Ollama: a JSON Schema, so calls without tags",
            form="json_schema",
            owned_by=("library",),
            fingerprints=(Fingerprint("//api/version", "version"),),
            api="ollama",
            prefill="plain",
            fill_in_middle="suffix",
        ),
        Backend(
            name="vllm",
            summary="vLLM: a structural tag",
            form="structural_tag",
            owned_by=("vllm",),
            fingerprints=(Fingerprint("//version", "version"),),
            prefill="continue_final_message",
            fill_in_middle="suffix",
            native_tools=True,
        ),
        Backend(
            name="mlx-lm",
            summary="mlx_lm.server: no constraint",
            fingerprints=(Fingerprint("/models", "data.0.id", value="(?i)mlx", absent="data.0.owned_by"),),
        ),
        GENERIC,
    )
}


def unconstrained(backend: Backend) -> Backend:
    """Return the backend without its constraints."""
    return replace(backend, form=None, rewrites_response_format=False)


def get_backend(name: str) -> Backend:
    """Return the backend of that name. Raises `ConfigError`, which names the known ones."""
    if name in BACKENDS:
        return BACKENDS[name]
    raise ConfigError(f"unknown kind of server {name!r:.80}. Known are {', '.join(BACKENDS)}")


def backend_of_owner(owner: str) -> Backend | None:
    """Return the backend whose list of models names that owner; None if it is unknown."""
    return next((row for row in BACKENDS.values() if owner in row.owned_by), None)


def backend_of_api(api: UpstreamApi) -> Backend | None:
    """Return the backend that this API belongs to; None for the OpenAI API, which many speak, and for other APIs."""
    rows = (row for row in BACKENDS.values() if row.api == api)
    return None if api == GENERIC.api else next(rows, None)
