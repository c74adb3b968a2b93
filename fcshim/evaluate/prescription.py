"""What follows from findings for settings: each with its reason.

Rule: only what was found out is set; where a default does as well, nothing is written.
Neighbours: the probes find out, `profile_file` writes the settings down, `serve` uses them.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fcshim.constrain.constraint import Form
from fcshim.evaluate.contact import Contact
from fcshim.evaluate.finding import Finding
from fcshim.evaluate.probes_calls import server_for
from fcshim.evaluate.result import NATIVE
from fcshim.evaluate.trial import Trial, in_words
from fcshim.profiles import DEFAULT, profile_for

EVERY_MODEL = "*"
_LACKS = (("system", "no-system"), ("images", "text-only"), ("replay", "thoughtless"))
"""Probes, and the profile of an upstream that does not take what they sent."""
_PROMPT_SHARE = 0.7
"""Of the room for a conversation; the rest is the reply's, and covers that tokens are estimated."""
_FORMS: tuple[tuple[str, Form], ...] = (
    ("grammar", "gbnf"),
    ("structural_tag", "structural_tag"),
    ("schema", "json_schema"),
)
"""The probes of constraints; the first keeps the model's own dialect, the last does not."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One setting, and why. `of_model`: it belongs to the model's table."""

    setting: str
    value: str | bool | int
    why: str
    of_model: bool = False


def prescribe(contact: Contact, findings: Sequence[Finding], ways: Iterable[Choice] = ()) -> tuple[Choice, ...]:
    """Draw the settings from what was found; `ways` are those of the model that were measured."""
    found = {finding.probe: finding for finding in findings}
    own = [*ways]
    if not any(choice.setting == "tools" for choice in own):
        own += _tools(found)
    general = [
        Choice(setting="upstream", value=contact.url, why="the endpoint that was examined"),
        Choice(setting="upstream_api", value=contact.kind.name, why=contact.sighting.evidence),
        *_constrain(contact, found),
    ]
    return (*general, *own, *_profile(contact.model, found), *_reasoning(found), *_budget(found))


def chosen_way(best: Trial, trials: Sequence[Trial]) -> tuple[Choice, ...]:
    """Give the settings for the way that did best."""
    others = "; ".join(f"{trial.way}: {trial.right}" for trial in trials if trial is not best)
    why = in_words(best) + (f". The others, of the same cases: {others}" if others else "")
    if best.way == NATIVE:
        return (Choice(setting="tools", value="native", why=why, of_model=True),)
    return (
        Choice(setting="tools", value="prompt", why="asked by the prompt, it did best", of_model=True),
        Choice(setting="dialect", value=best.way, why=why, of_model=True),
    )


def table_for(contact: Contact) -> str:
    """Name the model's table: the only model of a server answers to any name."""
    return EVERY_MODEL if len(contact.names) == 1 else contact.model


def _constrain(contact: Contact, found: Mapping[str, Finding]) -> Iterable[Choice]:
    works = [(form, found[probe]) for probe, form in _FORMS if probe in found and found[probe].verdict == "yes"]
    own = [(form, finding) for form, finding in works if form == contact.sighting.backend.form]
    if own:
        yield Choice(setting="constrain", value=contact.sighting.backend.name, why=own[0][1].evidence)
    elif works:
        form, finding = works[0]
        yield Choice(setting="constrain", value=server_for(form), why=f"{finding.title}: {finding.evidence}")
    elif {found[probe].verdict for probe, _ in _FORMS if probe in found} == {"no"}:
        yield Choice(setting="constrain", value="off", why="no form of constraint made a difference")


def _tools(found: Mapping[str, Finding]) -> Iterable[Choice]:
    tools = found.get("tools")
    if tools is None:
        return
    if tools.verdict == "yes":
        why = f"{tools.evidence}; the prompt is taken where its own tools turn out not to work"
        yield Choice(setting="tools", value="auto", why=why, of_model=True)
    else:
        yield Choice(setting="tools", value="prompt", why=f"its own tools: {tools.evidence}", of_model=True)


def _profile(model: str, found: Mapping[str, Finding]) -> Iterable[Choice]:
    """Name the rows that say what the endpoint does not take; what was not found out, the model's name still tells."""
    named = profile_for(model)
    taken = "system" in found and found["system"].verdict == "yes" and not named.system_role
    names = [] if named is DEFAULT or taken else [named.name]
    lacks = [(row, found[probe]) for probe, row in _LACKS if probe in found and _is_lack(found[probe])]
    names += [row for row, _ in lacks if row not in names]
    if names == ([] if named is DEFAULT else [named.name]):
        return
    reasons = [finding for _, finding in lacks] or [found["system"]]
    why = "; ".join(f"{finding.title}: {finding.evidence}" for finding in reasons)
    yield Choice(setting="profile", value="+".join(names) or DEFAULT.name, why=why, of_model=True)


def _is_lack(finding: Finding) -> bool:
    """Tell whether something is not taken; reasoning that a template only leaves out does no harm."""
    return finding.verdict == "no" and (finding.probe != "replay" or finding.value == "refused")


def _budget(found: Mapping[str, Finding]) -> Iterable[Choice]:
    room = found.get("context")
    if room is not None and isinstance(room.value, int):
        why = f"room for {room.evidence}; old results, then tools get shorter before the prompt fills it"
        yield Choice(setting="prompt_budget", value=int(room.value * _PROMPT_SHARE), why=why, of_model=True)


def _reasoning(found: Mapping[str, Finding]) -> Iterable[Choice]:
    reasoning = found.get("reasoning")
    if reasoning is not None and isinstance(reasoning.value, dict):
        yield Choice(
            setting="in_reasoning", value=reasoning.value["in_reasoning"], why=reasoning.evidence, of_model=True
        )
