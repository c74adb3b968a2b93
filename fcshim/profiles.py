"""What each kind of model and its template needs and accepts: data.

Rule: a row says only what the code asks for; whatever is true of every model is no profile's business.
Neighbours: `prompt.history` writes the conversation as the profile allows it, the configuration names profiles.
"""

import difflib
import fnmatch
from dataclasses import dataclass, fields

from fcshim.errors import ConfigError
from fcshim.prompt.turns import ReasoningReplay

AUTO = "auto"
"""The setting that goes by the model's name."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of model, as its template takes conversations.

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
    reasoning: ReasoningReplay = "all"
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


def get_profile(profile: str | Profile) -> Profile:
    """Give the row of that name (a `Profile` is given back as it is); `no-system+text-only` joins rows.

    Raises `ConfigError` naming the known ones.
    """
    if isinstance(profile, Profile):
        return profile
    return join_profiles(*(_profile_named(name.strip()) for name in profile.split("+")))


def join_profiles(*rows: Profile) -> Profile:
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


def _profile_named(profile: str) -> Profile:
    if profile in PROFILES:
        return PROFILES[profile]
    near = difflib.get_close_matches(profile, PROFILES, n=1)
    hint = f", did you mean {near[0]!r}?" if near else "."
    raise ConfigError(f"unknown profile {profile!r}{hint} Known profiles: {', '.join(PROFILES)}")


def chosen_profile(setting: str | Profile, model: str) -> Profile:
    """Give the profile that is set, or under `auto` the one for the model. Raises `ConfigError`."""
    return profile_for(model) if setting == AUTO else get_profile(setting)


def profile_for(model: str) -> Profile:
    """Give the row whose patterns fit the model's name (its last path component); else the default."""
    name = model.replace("\\", "/").rpartition("/")[2].lower()
    for row in PROFILES.values():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in row.models):
            return row
    return DEFAULT
