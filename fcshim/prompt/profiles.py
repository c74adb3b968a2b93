"""The table of profiles: what the chat templates of certain models accept, and what those models need.

Rule: a row has only the fields that some code reads; what holds for every model is not in a profile.
"""

import difflib
import functools
from dataclasses import dataclass, fields
from typing import Literal

from fcshim.errors import ConfigError
from fcshim.model_defaults import defaults_for

AUTO = "auto"
"""The setting that chooses a profile by the model's name."""
ReasoningReplay = Literal["none", "current", "all"]
"""The reasoning of earlier replies that the prompt contains: none, that after the last user message, or all."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The features that the chat template of one kind of model accepts.

    `system_role`: a system message may come first (else its text starts the first user turn). `alternate`: the template
    demands that user and assistant alternate, the user first. `media`: images and other media may be sent (else a line
    of text replaces each).

    `reasoning`: which reasoning of earlier replies is sent to the model. `all` leaves the choice to the model's
    template, which mostly drops what the model should not see. `current` sends the reasoning since the last user turn;
    each new user turn then changes the prompt before it, so the engine's prefix cache misses from there on.
    `reasoning_tag` (`<think>`): reasoning is written with this tag before the text, for servers that drop the API's own
    field. `reminder`: after that many characters, a user turn ends with a reminder of the call syntax. The reminder
    stays in later requests, since removing it would make the prefix cache miss, which costs more than its line.
    """

    name: str
    summary: str
    system_role: bool = True
    alternate: bool = True
    media: bool = True
    reasoning: ReasoningReplay = "all"
    reasoning_tag: str = ""
    reminder: int = 0


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
        ),
        Profile(
            name="text-only",
            summary="servers that refuse images and sound; a line of text replaces each",
            media=False,
        ),
        Profile(
            name="free",
            summary="templates that take the roles in any order; consecutive turns of one role stay apart",
            alternate=False,
        ),
        Profile(
            name="reminded",
            summary="models that forget the call syntax: it is repeated about every 1,000 tokens",
            reminder=4_000,
        ),
        Profile(
            name="no-reasoning",
            summary="servers that refuse reasoning in a request, and models that it confuses",
            reasoning="none",
        ),
        Profile(
            name="thinking",
            summary="models that need their earlier reasoning, behind a server that drops it: it is sent as text",
            reasoning_tag="<think>",
        ),
        Profile(
            name="thinking-now",
            summary="the same, for models that need only the reasoning since the last user turn",
            reasoning="current",
            reasoning_tag="<think>",
        ),
    )
}


@functools.lru_cache(maxsize=256)
def get_profile(profile: str | Profile) -> Profile:
    """Return the profile of that name, or `profile` itself if it is one; `no-system+text-only` joins two rows.

    Raises `ConfigError`, which names the known ones.
    """
    if isinstance(profile, Profile):
        return profile
    return join_profiles(*(_profile_named(name.strip()) for name in profile.split("+")))


def join_profiles(*rows: Profile) -> Profile:
    """Join profiles: for each field, the last row wins that differs from the default profile."""
    if len(rows) == 1:
        return rows[0]
    columns = [field.name for field in fields(Profile) if field.name not in ("name", "summary")]
    fields_set = {
        column: getattr(row, column)
        for row in rows
        for column in columns
        if getattr(row, column) != getattr(DEFAULT, column)
    }
    return Profile(
        name="+".join(row.name for row in rows), summary="; ".join(row.summary for row in rows), **fields_set
    )


def _profile_named(profile: str) -> Profile:
    if profile in PROFILES:
        return PROFILES[profile]
    similar = difflib.get_close_matches(profile, PROFILES, n=1)
    hint = f", did you mean {similar[0]!r}?" if similar else "."
    raise ConfigError(f"unknown profile {profile!r}{hint} Known profiles: {', '.join(PROFILES)}")


@functools.lru_cache(maxsize=256)
def chosen_profile(setting: str | Profile, model: str) -> Profile:
    """Return the profile that the setting names, or with `auto` that of the model. Raises `ConfigError`."""
    return get_profile(defaults_for(model).profile if setting == AUTO else setting)
