"""Which kinds of servers there are, how each is known, and how it holds a model to calls: data.

Rule: others imitate the pages of rows further down, so order counts; nothing is sent that a server may not know.
Neighbours: `detection` looks for the signs, `shim` and `retry` do as a row says, the configuration names rows.
"""

from dataclasses import dataclass, replace
from typing import Literal

from fcshim.codecs.upstreams import UpstreamApi
from fcshim.constrain.constraint import Form
from fcshim.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A page by which a server is known: at `path`, JSON that has `member` (`data.0.id`: a way down, lists by index).

    A page that a server does not have may come with status 200 all the same, so only a member counts.
    """

    path: str
    member: str


Prefill = Literal["plain", "continue_final_message"]
"""`plain`: a last message of the assistant's is gone on with. `continue_final_message`: that field says so."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One kind of server, and how it holds a model to a grammar: in which `form`, None where it cannot.

    `says` are the words by which its list of models tells who owns them; where that says nothing, its `signs` are
    looked for. `text_or_call`: also where a call is free, one that a reply makes is held to the grammar; `lazy`: which
    begins no sooner than where a call may, for which the prompt is asked for first and then completed. `formats`: a
    `response_format` may be changed so that it lets calls through. `api` is the one that tells most of its models.
    `prefill`: how it is told to go on with the assistant's last message.
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


GENERIC = Backend(
    name="generic",
    summary="any other server: nothing is sent that it may not know",
    owned_by=("openai", "system", "anthropic", "google", "mistralai", "fcshim"),
)

OFF = Backend(name="off", summary="nothing is sent but what the client sent", rewrites_response_format=False)
"""What is done where constraints are switched off, or were refused; no kind of server."""

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
        ),
        Backend(
            name="llama-server-eager",
            summary="the same, also where the model may choose: a call that a reply begins is a valid one",
            form="gbnf",
            constrains_auto_choice=True,
            api="llamacpp",
            prefill="plain",
        ),
        Backend(
            name="llama-server-lazy",
            summary="the same, by /completion: the grammar waits until a call may begin",
            form="gbnf",
            constrains_auto_choice=True,
            lazy=True,
            api="llamacpp",
            prefill="plain",
        ),
        Backend(
            name="llama-cpp-python",
            summary="llama-cpp-python's server: a grammar, which must be right, or the process dies",
            form="gbnf",
            owned_by=("me",),
        ),
        Backend(
            name="llama-server-llguidance",
            summary="llama.cpp's server, built with LLAMA_LLGUIDANCE: a grammar in Lark",
            form="llguidance",
            api="llamacpp",
        ),
        Backend(
            name="vllm-guidance",
            summary="vLLM with the structured-outputs backend guidance: a grammar in Lark",
            form="guidance",
        ),
        Backend(
            name="lmstudio",
            summary="LM Studio: a schema, so without tags",
            form="json_schema",
            owned_by=("organization_owner", "organization-owner"),
            fingerprints=(
                Fingerprint("//api/v0/models", "data.0.compatibility_type"),
                Fingerprint("//api/v1/models", "models.0.loaded_instances"),
            ),
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
        ),
        Backend(
            name="ollama",
            summary="Ollama: a schema, so without tags",
            form="json_schema",
            owned_by=("library",),
            fingerprints=(Fingerprint("//api/version", "version"),),
            api="ollama",
            prefill="plain",
        ),
        Backend(
            name="vllm",
            summary="vLLM: a structural tag",
            form="structural_tag",
            owned_by=("vllm",),
            fingerprints=(Fingerprint("//version", "version"),),
            prefill="continue_final_message",
        ),
        GENERIC,
    )
}


def unconstrained(backend: Backend) -> Backend:
    """Give the row of a server that takes no constraint, and is otherwise the same."""
    return replace(backend, form=None, rewrites_response_format=False)


def get_backend(name: str) -> Backend:
    """Give the row of that name. Raises `ConfigError` naming the known ones."""
    if name in BACKENDS:
        return BACKENDS[name]
    raise ConfigError(f"unknown kind of server {name!r:.80}. Known are {', '.join(BACKENDS)}")


def backend_of_owner(owner: str) -> Backend | None:
    """Give the row for the owner that a server's list of models names."""
    return next((row for row in BACKENDS.values() if owner in row.owned_by), None)


def backend_of_api(api: UpstreamApi) -> Backend | None:
    """Give the row whose own API that is; None where many speak it."""
    own = (row for row in BACKENDS.values() if row.api == api)
    return None if api == GENERIC.api else next(own, None)
