"""What follows from findings for settings: each with its reason.

Rule: only what was found out is set; where a default does as well, nothing is written.
Neighbours: the probes find out, `profile_file` writes the settings down, `serve` uses them.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fcshim.constrain.constraint import Form
from fcshim.evaluate.comparison import Trial, describe_trial
from fcshim.evaluate.connect import EndpointInfo
from fcshim.evaluate.finding import Finding
from fcshim.evaluate.probes_calls import backend_name_for
from fcshim.evaluate.result import NATIVE
from fcshim.profiles import DEFAULT, profile_for

ANY_MODEL = "*"
_PROFILES_BY_PROBE = (("system", "no-system"), ("images", "text-only"), ("replay", "thoughtless"))
"""Probes, and the profile of an upstream that does not take what they sent."""
_PROMPT_SHARE = 0.7
"""Of the room for a conversation; the rest is the reply's, and covers that tokens are estimated."""
_FORMS_BY_PROBE: tuple[tuple[str, Form], ...] = (
    ("grammar", "gbnf"),
    ("structural_tag", "structural_tag"),
    ("schema", "json_schema"),
)
"""The probes of constraints; the first keeps the model's own dialect, the last does not."""


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """One setting, and why. `of_model`: it belongs to the model's table."""

    setting: str
    value: str | bool | int
    why: str
    of_model: bool = False


def recommend(
    endpoint: EndpointInfo, findings: Sequence[Finding], measured: Iterable[Recommendation] = ()
) -> tuple[Recommendation, ...]:
    """Draw the settings from what was found; `ways` are those of the model that were measured."""
    found = {finding.probe: finding for finding in findings}
    own = [*measured]
    if not any(choice.setting == "tools" for choice in own):
        own += _recommend_tools(found)
    general = [
        Recommendation(setting="upstream", value=endpoint.url, why="the endpoint that was examined"),
        Recommendation(setting="upstream_api", value=endpoint.kind.name, why=endpoint.detection.evidence),
        *_recommend_constrain(endpoint, found),
    ]
    return (
        *general,
        *own,
        *_recommend_profile(endpoint.model, found),
        *_recommend_reasoning(found),
        *_recommend_budget(found),
    )


def recommend_dialect(best: Trial, trials: Sequence[Trial]) -> tuple[Recommendation, ...]:
    """Give the settings for the way that did best."""
    others = "; ".join(f"{trial.way}: {trial.right}" for trial in trials if trial is not best)
    why = describe_trial(best) + (f". The others, of the same cases: {others}" if others else "")
    if best.way == NATIVE:
        return (Recommendation(setting="tools", value="native", why=why, of_model=True),)
    return (
        Recommendation(setting="tools", value="prompt", why="asked by the prompt, it did best", of_model=True),
        Recommendation(setting="dialect", value=best.way, why=why, of_model=True),
    )


def model_pattern(endpoint: EndpointInfo) -> str:
    """Name the model's table: the only model of a server answers to any name."""
    return ANY_MODEL if len(endpoint.model_names) == 1 else endpoint.model


def _recommend_constrain(endpoint: EndpointInfo, findings: Mapping[str, Finding]) -> Iterable[Recommendation]:
    works = [
        (form, findings[probe])
        for probe, form in _FORMS_BY_PROBE
        if probe in findings and findings[probe].verdict == "yes"
    ]
    own = [(form, finding) for form, finding in works if form == endpoint.detection.backend.form]
    if own:
        yield Recommendation(setting="constrain", value=endpoint.detection.backend.name, why=own[0][1].evidence)
    elif works:
        form, finding = works[0]
        yield Recommendation(
            setting="constrain", value=backend_name_for(form), why=f"{finding.title}: {finding.evidence}"
        )
    elif {findings[probe].verdict for probe, _ in _FORMS_BY_PROBE if probe in findings} == {"no"}:
        yield Recommendation(setting="constrain", value="off", why="no form of constraint made a difference")


def _recommend_tools(findings: Mapping[str, Finding]) -> Iterable[Recommendation]:
    tools = findings.get("tools")
    if tools is None:
        return
    if tools.verdict == "yes":
        why = f"{tools.evidence}; the prompt is taken where its own tools turn out not to work"
        yield Recommendation(setting="tools", value="auto", why=why, of_model=True)
    else:
        yield Recommendation(setting="tools", value="prompt", why=f"its own tools: {tools.evidence}", of_model=True)


def _recommend_profile(model: str, findings: Mapping[str, Finding]) -> Iterable[Recommendation]:
    """Name the rows that say what the endpoint does not take; what was not found out, the model's name still tells."""
    named = profile_for(model)
    taken = "system" in findings and findings["system"].verdict == "yes" and not named.system_role
    names = [] if named is DEFAULT or taken else [named.name]
    lacks = [
        (row, findings[probe])
        for probe, row in _PROFILES_BY_PROBE
        if probe in findings and _is_unsupported(findings[probe])
    ]
    names += [row for row, _ in lacks if row not in names]
    if names == ([] if named is DEFAULT else [named.name]):
        return
    reasons = [finding for _, finding in lacks] or [findings["system"]]
    why = "; ".join(f"{finding.title}: {finding.evidence}" for finding in reasons)
    yield Recommendation(setting="profile", value="+".join(names) or DEFAULT.name, why=why, of_model=True)


def _is_unsupported(finding: Finding) -> bool:
    """Tell whether something is not taken; reasoning that a template only leaves out does no harm."""
    return finding.verdict == "no" and (finding.probe != "replay" or finding.value == "refused")


def _recommend_budget(findings: Mapping[str, Finding]) -> Iterable[Recommendation]:
    room = findings.get("context")
    if room is not None and isinstance(room.value, int):
        why = f"room for {room.evidence}; old results, then tools get shorter before the prompt fills it"
        yield Recommendation(setting="prompt_budget", value=int(room.value * _PROMPT_SHARE), why=why, of_model=True)


def _recommend_reasoning(findings: Mapping[str, Finding]) -> Iterable[Recommendation]:
    reasoning = findings.get("reasoning")
    if reasoning is not None and isinstance(reasoning.value, dict):
        yield Recommendation(
            setting="in_reasoning", value=reasoning.value["in_reasoning"], why=reasoning.evidence, of_model=True
        )
