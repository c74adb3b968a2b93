"""The settings that follow from the findings, each with its reason.

Rule: a setting is recommended only for a finding, and only where the default would not do as well.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fcshim.config import ModelSettings
from fcshim.constrain.constraint import Form
from fcshim.evaluate.connect import EndpointInfo
from fcshim.evaluate.probes_calls import backend_name_for
from fcshim.evaluate.result import Finding
from fcshim.evaluate.standings import CandidateReport, describe
from fcshim.prompt.profiles import AUTO, DEFAULT, chosen_profile

ANY_MODEL = "*"
_PROFILES_BY_PROBE = (("system", "no-system"), ("images", "text-only"), ("replay", "no-reasoning"))
"""Names of probes, and the profile for an upstream that rejects what the probe sends."""
_PROMPT_SHARE = 0.7
"""Share of the context for the prompt; the rest is for the reply, and for errors of the estimated token counts."""
_FORMS_BY_PROBE: tuple[tuple[str, Form], ...] = (
    ("grammar", "gbnf"),
    ("structural_tag", "structural_tag"),
    ("schema", "json_schema"),
)
"""The probes of constraints, best first: a grammar allows the model's own dialect, a JSON Schema does not."""


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """A setting and its reason. `of_model`: it belongs in the table of the model."""

    setting: str
    value: str | bool | int
    reason: str
    of_model: bool = False


def recommend(
    endpoint: EndpointInfo, findings: Sequence[Finding], measured: Iterable[Recommendation] = (), note: str = ""
) -> tuple[Recommendation, ...]:
    """Return the settings that follow from the findings; `measured` are those of the model that follow from the race.

    `note` says why the calls of the configured dialect cannot be constrained.
    """
    by_probe = {finding.probe: finding for finding in findings}
    own = [*measured]
    if not any(choice.setting == "tools" for choice in own):
        own += _recommend_tools(by_probe)
    general = [
        Recommendation(setting="upstream", value=endpoint.url, reason="the endpoint that was examined"),
        Recommendation(setting="upstream_api", value=endpoint.kind.name, reason=endpoint.detection.evidence),
        *_recommend_constrain(endpoint, by_probe, f"; but {note}" if note else ""),
    ]
    return (
        *general,
        *own,
        *_recommend_profile(endpoint.model, by_probe),
        *_recommend_reasoning(by_probe),
        *_recommend_budget(findings),
    )


def recommend_candidate(best: CandidateReport, reports: Sequence[CandidateReport]) -> tuple[Recommendation, ...]:
    """Return the settings of the best candidate; the last one has the result of the race as its reason."""
    reason = explain(best, reports)
    names = list(best.settings)
    return tuple(
        Recommendation(
            setting=name,
            value=best.settings[name],
            reason=reason if name == names[-1] else f"of the best candidate, {best.name}",
            of_model=name in ModelSettings.__struct_fields__,
        )
        for name in names
    )


def explain(best: CandidateReport, reports: Sequence[CandidateReport]) -> str:
    """Return the result of the race in one line: the best candidate, and the others by their score."""
    others = sorted((each for each in reports if each.name != best.name and each.cases), key=lambda each: -each.score)
    listed = "; ".join(f"{each.name}: {each.right} of {each.cases}" for each in others)
    return f"{best.name}: {describe(best)}" + (f". Others: {listed}" if listed else "")


def model_pattern(endpoint: EndpointInfo) -> str:
    """Return the name of the model's table. A server with one model accepts any name, so its table is for all."""
    return ANY_MODEL if len(endpoint.model_names) == 1 else endpoint.model


def _recommend_constrain(
    endpoint: EndpointInfo, findings: Mapping[str, Finding], note: str
) -> Iterable[Recommendation]:
    works = [
        (form, findings[probe])
        for probe, form in _FORMS_BY_PROBE
        if probe in findings and findings[probe].verdict == "yes"
    ]
    own = [(form, finding) for form, finding in works if form == endpoint.detection.backend.form]
    if own:
        yield Recommendation(
            setting="constrain", value=endpoint.detection.backend.name, reason=own[0][1].evidence + note
        )
    elif works:
        form, finding = works[0]
        yield Recommendation(
            setting="constrain", value=backend_name_for(form), reason=f"{finding.title}: {finding.evidence}{note}"
        )
    elif {findings[probe].verdict for probe, _ in _FORMS_BY_PROBE if probe in findings} == {"no"}:
        yield Recommendation(setting="constrain", value="off", reason="no constraint made a difference")


def _recommend_tools(findings: Mapping[str, Finding]) -> Iterable[Recommendation]:
    tools = findings.get("tools")
    if tools is None:
        return
    if tools.verdict == "yes":
        reason = f"{tools.evidence}; the tools go into the prompt if native tool calling turns out not to work"
        yield Recommendation(setting="tools", value="auto", reason=reason, of_model=True)
    else:
        yield Recommendation(
            setting="tools", value="prompt", reason=f"native tool calling: {tools.evidence}", of_model=True
        )


def _recommend_profile(model: str, findings: Mapping[str, Finding]) -> Iterable[Recommendation]:
    """Recommend the profiles for what the endpoint rejects, with the profile that the model's name implies.

    Nothing is recommended if the model's name alone implies the same profile.
    """
    named = chosen_profile(AUTO, model)
    taken = "system" in findings and findings["system"].verdict == "yes" and not named.system_role
    names = [] if named is DEFAULT or taken else [named.name]
    refused = {probe: finding for probe, finding in findings.items() if finding.verdict == "no"}
    if "replay" in refused and refused["replay"].value != "refused":
        del refused["replay"]  # reasoning that a template only leaves out does no harm
    lacks = [(row, refused[probe]) for probe, row in _PROFILES_BY_PROBE if probe in refused]
    names += [row for row, _ in lacks if row not in names]
    if names == ([] if named is DEFAULT else [named.name]):
        return
    reasons = [finding for _, finding in lacks] or [findings["system"]]
    reason = "; ".join(f"{finding.title}: {finding.evidence}" for finding in reasons)
    yield Recommendation(setting="profile", value="+".join(names) or DEFAULT.name, reason=reason, of_model=True)


def find_context(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding whose value is the context length in tokens: the measured one, or else the reported one."""
    by_probe = {each.probe: each for each in findings if isinstance(each.value, int)}
    return by_probe.get("measured_context") or by_probe.get("context")


def _recommend_budget(findings: Iterable[Finding]) -> Iterable[Recommendation]:
    context = find_context(findings)
    if context is not None:
        reason = f"a context of {context.evidence}; old results, then tools are shortened before the prompt fills it"
        yield Recommendation(
            setting="prompt_budget", value=int(context.value * _PROMPT_SHARE), reason=reason, of_model=True
        )


def _recommend_reasoning(findings: Mapping[str, Finding]) -> Iterable[Recommendation]:
    reasoning = findings.get("reasoning")
    if reasoning is not None and isinstance(reasoning.value, dict):
        yield Recommendation(
            setting="open_reasoning_tag",
            value=reasoning.value["open_reasoning_tag"],
            reason=reasoning.evidence,
            of_model=True,
        )
