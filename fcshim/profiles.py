"""What each kind of upstream and model needs and accepts: data.

Rule: a row says only what the code asks for; whatever is true of every upstream is no profile's business.
Neighbours: `prompt.history` writes the conversation as the profile allows it, the configuration names profiles.
"""

import difflib
import fnmatch
from dataclasses import dataclass, fields, replace
from typing import Literal

from fcshim.codecs.upstreams import UpstreamApi
from fcshim.constrain.constraint import Form
from fcshim.errors import ConfigError
from fcshim.prompt.turns import Replay


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of upstream.

    `system_role`: a system message may come first (else its text opens the first user turn). `alternate`: user and
    assistant take turns, the user first, or the model's template refuses. `media`: images and the like may be sent
    (else a line says that there was one). `models` are name patterns, in lower case, that choose the row.

    `reasoning`: which reasoning of earlier replies the model sees again. `all` leaves it to the model's template, which
    mostly drops what the model should not see; `current`, that since the user spoke last, takes away at each of the
    user's turns what stood in the prompt, which is then read again from there on. `reasoning_tag` (`<think>`) writes it
    before the text, for servers that drop the API's own field. `reminder`: after so many characters the user's turn
    ends with how to call, and does so in later requests, too: a line that vanished would cost more to read again.
    """

    name: str
    summary: str
    system_role: bool = True
    alternate: bool = True
    media: bool = True
    reasoning: Replay = "all"
    reasoning_tag: str = ""
    reminder: int = 0
    models: tuple[str, ...] = ()


DEFAULT = Profile(
    name="default",
    summary="any server that speaks the OpenAI API: one system message first, then user and assistant in turns",
)

PROFILES: dict[str, Profile] = {
    row.name: row
    for row in (
        DEFAULT,
        Profile(
            name="no-system",
            summary="models whose template refuses a system message; its text opens the first user turn",
            system_role=False,
            models=(
                "gemma-1.*",
                "gemma-2*",
                "gemma-?b*",
                "gemma2*",
                "mistral-7b-instruct-v0.[12]*",
                "mixtral-8x*-v0.1*",
            ),
        ),
        Profile(
            name="text-only",
            summary="servers that refuse a request with images or sound in it; a line says that there was one",
            media=False,
        ),
        Profile(
            name="free",
            summary="templates that take the roles in any order; consecutive turns of one role stay apart",
            alternate=False,
        ),
        Profile(
            name="reminded",
            summary="models that forget how to call: it is said again about every 1,000 tokens",
            reminder=4_000,
        ),
        Profile(
            name="thoughtless",
            summary="servers that refuse reasoning in a request, and models that it leads astray",
            reasoning="none",
        ),
        Profile(
            name="thinking",
            summary="models that go on from earlier reasoning, behind a server that drops it: it is written as text",
            reasoning_tag="<think>",
        ),
        Profile(
            name="thinking-now",
            summary="the same, where only the reasoning since the user's last words counts",
            reasoning="current",
            reasoning_tag="<think>",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Sign:
    """A page by which a server is known: at `path`, JSON that has `member` (`data.0.id`: a way down, lists by index).

    A page that a server does not have may come with status 200 all the same, so only a member counts.
    """

    path: str
    member: str


Prefill = Literal["plain", "continue_final_message"]
"""`plain`: a last message of the assistant's is gone on with. `continue_final_message`: that field says so."""


@dataclass(frozen=True, slots=True)
class Server:
    """One kind of server, and how it holds a model to a grammar: in which `form`, None where it cannot.

    `says` are the words by which its list of models tells who owns them; where that says nothing, its `signs` are
    looked for. `text_or_call`: also where a call is free, one that a reply makes is held to the grammar. `formats`: a
    `response_format` may be changed so that it lets calls through. `api` is the one that tells most of its models.
    `prefill`: how it is told to go on with the assistant's last message.
    """

    name: str
    summary: str
    form: Form | None = None
    says: tuple[str, ...] = ()
    signs: tuple[Sign, ...] = ()
    text_or_call: bool = False
    formats: bool = True
    api: UpstreamApi = "openai"
    prefill: Prefill | None = None


GENERIC = Server(
    name="generic",
    summary="any other server: nothing is sent that it may not know",
    says=("openai", "system", "anthropic", "google", "mistralai", "fcshim"),
)

OFF = Server(name="off", summary="nothing is sent but what the client sent", formats=False)
"""What is done where constraints are switched off, or were refused; no kind of server."""

SERVERS: dict[str, Server] = {
    row.name: row  # others imitate the pages of those that come later, so the order counts
    for row in (
        Server(
            name="llama-server",
            summary="llama.cpp's server: a grammar",
            form="gbnf",
            says=("llamacpp",),
            signs=(Sign("//props", "default_generation_settings"),),
            api="llamacpp",
            prefill="plain",
        ),
        Server(
            name="llama-server-eager",
            summary="the same, also where the model may choose: a call that a reply begins is a valid one",
            form="gbnf",
            text_or_call=True,
            api="llamacpp",
            prefill="plain",
        ),
        Server(
            name="llama-cpp-python",
            summary="llama-cpp-python's server: a grammar, which must be right, or the process dies",
            form="gbnf",
            says=("me",),
        ),
        Server(
            name="llama-server-llguidance",
            summary="llama.cpp's server, built with LLAMA_LLGUIDANCE: a grammar in Lark",
            form="llguidance",
            api="llamacpp",
        ),
        Server(
            name="vllm-guidance",
            summary="vLLM with the structured-outputs backend guidance: a grammar in Lark",
            form="guidance",
        ),
        Server(
            name="lmstudio",
            summary="LM Studio: a schema, so without tags",
            form="json_schema",
            says=("organization_owner", "organization-owner"),
            signs=(
                Sign("//api/v0/models", "data.0.compatibility_type"),
                Sign("//api/v1/models", "models.0.loaded_instances"),
            ),
        ),
        Server(
            name="sglang",
            summary="SGLang: a structural tag",
            form="structural_tag",
            says=("sglang",),
            signs=(Sign("//server_info", "tokenizer_path"), Sign("//get_server_info", "tokenizer_path")),
            prefill="continue_final_message",
        ),
        Server(
            name="ollama",
            summary="Ollama: a schema, so without tags",
            form="json_schema",
            says=("library",),
            signs=(Sign("//api/version", "version"),),
            api="ollama",
            prefill="plain",
        ),
        Server(
            name="vllm",
            summary="vLLM: a structural tag",
            form="structural_tag",
            says=("vllm",),
            signs=(Sign("//version", "version"),),
            prefill="continue_final_message",
        ),
        GENERIC,
    )
}


def unconstrained(server: Server) -> Server:
    """Give the row of a server that takes no constraint, and is otherwise the same."""
    return replace(server, form=None, formats=False)


def get_server(name: str) -> Server:
    """Give the row of that name. Raises `ConfigError` naming the known ones."""
    if name in SERVERS:
        return SERVERS[name]
    raise ConfigError(f"unknown kind of server {name!r:.80}. Known are {', '.join(SERVERS)}")


def server_that_says(owner: str) -> Server | None:
    """Give the row for the owner that a server's list of models names."""
    return next((row for row in SERVERS.values() if owner in row.says), None)


def server_that_speaks(api: UpstreamApi) -> Server | None:
    """Give the row whose own API that is; None where many speak it."""
    own = (row for row in SERVERS.values() if row.api == api)
    return None if api == GENERIC.api else next(own, None)


def get_profile(profile: str | Profile) -> Profile:
    """Give the row of that name (a `Profile` is given back as it is); `no-system+text-only` joins rows.

    Raises `ConfigError` naming the known ones.
    """
    if isinstance(profile, Profile):
        return profile
    return joined(*(_row(name.strip()) for name in profile.split("+")))


def joined(*rows: Profile) -> Profile:
    """Give the profile that has whatever one of the rows has that is not the default's; the last of them counts."""
    if len(rows) == 1:
        return rows[0]
    columns = [field.name for field in fields(Profile) if field.name not in ("name", "summary", "models")]
    own = {
        column: getattr(row, column)
        for row in rows
        for column in columns
        if getattr(row, column) != getattr(DEFAULT, column)
    }
    return Profile(name="+".join(row.name for row in rows), summary="; ".join(row.summary for row in rows), **own)


def _row(profile: str) -> Profile:
    if profile in PROFILES:
        return PROFILES[profile]
    near = difflib.get_close_matches(profile, PROFILES, n=1)
    hint = f", did you mean {near[0]!r}?" if near else "."
    raise ConfigError(f"unknown profile {profile!r}{hint} Known profiles: {', '.join(PROFILES)}")


def profile_for(model: str) -> Profile:
    """Give the row whose patterns fit the model's name (its last path component); else the default."""
    name = model.replace("\\", "/").rpartition("/")[2].lower()
    for row in PROFILES.values():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in row.models):
            return row
    return DEFAULT
