"""The doctor: an endpoint is looked at from all sides, and what follows for its settings is written down.

Rule: every statement rests on a real request; what is measured costs a known number of them.
Neighbours: `contact`, `probes`, `trial` and `prescription` do the work; the command `doctor` shows it.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import msgspec

from fcshim.client import Client
from fcshim.config import Config
from fcshim.evaluate.case import Case
from fcshim.evaluate.comparison import Trial, best_trial, candidate_dialects, run_trial, select_cases
from fcshim.evaluate.connect import EndpointInfo, connect
from fcshim.evaluate.finding import Finding
from fcshim.evaluate.probes import run_probes
from fcshim.evaluate.recommendations import Recommendation, model_pattern, recommend, recommend_dialect
from fcshim.evaluate.result import NATIVE, Result
from fcshim.evaluate.runner import CONCURRENCY
from fcshim.evaluate.settings_file import render_settings
from fcshim.evaluate.suite import DEFAULT_CATEGORIES
from fcshim.evaluate.target import ProbeTarget
from fcshim.profiles import AUTO
from fcshim.upstream import Timeouts, Upstream

DEFAULT_CASES = 24
"""Cases for each way: enough to tell what works from what does not, in minutes on a CPU."""
_MAX_TOKENS, _MAX_REASONING_TOKENS = 512, 2048
"""Tokens of a reply; those of a model that reasons first."""
_LONG_CASE_CONTEXT = 8192
"""Tokens of context that the longest cases need."""
_LONG_CATEGORIES = frozenset(["many_tools", "long_results"])


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found out. `works`: calls can be had of this model; `table` is its name in the settings."""

    upstream: str
    upstream_api: str
    server: str
    evidence: str
    model: str
    models: int
    table: str
    works: bool
    requests: int
    findings: tuple[Finding, ...]
    trials: tuple[Trial, ...]
    way: str
    """The way of asking that did best; empty where none was tried, or none worked."""
    choices: tuple[Recommendation, ...]


@dataclass(frozen=True, slots=True)
class DoctorCallbacks:
    """Is told what happens while it happens: who is there, each finding, each case of a way, each way."""

    on_connect: Callable[[EndpointInfo], None]
    on_finding: Callable[[Finding], None]
    on_case: Callable[[str, int, int], None]
    on_trial: Callable[[Trial], None]


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """What the doctor is asked to do: `api` and `model` where they are named; `cases` for each way, 0 for none."""

    api: str | None = None
    model: str = ""
    cases: int = DEFAULT_CASES
    categories: tuple[str, ...] = ()


async def diagnose(config: Config, options: DoctorOptions, callbacks: DoctorCallbacks) -> Diagnosis:
    """Examine the configuration's upstream, in the API that is named or that its server speaks best.

    Raises `ConfigError` for an unknown category, `UpstreamError` where the upstream is away or is no such endpoint.
    """
    cases = select_cases(options.categories or DEFAULT_CATEGORIES, options.cases)
    timeouts = Timeouts(
        connect=config.connect_timeout, first_chunk=config.first_chunk_timeout, chunk=config.chunk_timeout
    )
    contact = await connect(config.upstream, options.api, options.model, config.upstream_key, timeouts)
    callbacks.on_connect(contact)
    async with Upstream(contact.url, key=config.upstream_key, timeouts=timeouts, kind=contact.kind) as upstream:
        patient = ProbeTarget(upstream, contact.model, contact.detection.backend, contact.detection.model_list)
        findings = []
        async for finding in run_probes(patient):
            callbacks.on_finding(finding)
            findings.append(finding)
    well = not any(finding.fatal for finding in findings)
    ward = _TrialRunner(config, timeouts, contact, findings)
    trials = [trial async for trial in ward.run_trials(cases, callbacks)] if well and cases else []
    best = best_trial(trials)
    return Diagnosis(
        upstream=contact.url,
        upstream_api=contact.kind.name,
        server=contact.detection.backend.name,
        evidence=contact.detection.evidence,
        model=contact.model,
        models=len(contact.model_names),
        table=model_pattern(contact),
        works=well and (best is not None or not trials),
        requests=patient.request_count + sum(trial.cases for trial in trials),
        findings=tuple(findings),
        trials=tuple(trials),
        way="" if best is None else best.way,
        choices=recommend(contact, findings, () if best is None else recommend_dialect(best, trials)),
    )


class _TrialRunner:
    """Where ways of asking are tried, with the settings that the findings call for."""

    def __init__(self, config: Config, timeouts: Timeouts, endpoint: EndpointInfo, findings: Sequence[Finding]) -> None:
        self._config = config
        self._timeouts = timeouts
        self._endpoint = endpoint
        self._findings = {finding.probe: finding for finding in findings}
        self._settings = {choice.setting: str(choice.value) for choice in recommend(endpoint, findings)}

    async def run_trials(self, cases: Sequence[Case], callbacks: DoctorCallbacks) -> AsyncIterator[Trial]:
        """Ask the cases in every way that makes sense, one way after the other."""
        tools = self._findings.get("tools")
        able = tools is not None and (tools.verdict == "yes" or tools.value == "required")
        fitting = [case for case in cases if not (self._has_short_context() and case.category in _LONG_CATEGORIES)]
        ways = candidate_dialects(self._endpoint.model, native=able, provider_api=self._endpoint.kind.allows_verbatim)
        for way in ways:
            done = 0

            def count(_: Result, way: str = way) -> None:
                nonlocal done
                done += 1
                callbacks.on_case(way, done, len(fitting))

            async with self._client(way) as client:
                trial = await run_trial(
                    way,
                    client,
                    fitting,
                    count,
                    own=way == ways[0],
                    max_tokens=self._max_tokens(),
                    concurrency=1 if self._is_sequential() else CONCURRENCY,
                )
            callbacks.on_trial(trial)
            yield trial

    def _client(self, dialect: str) -> Client:
        key = self._config.upstream_key
        return Client(
            self._endpoint.url,
            api=self._endpoint.kind.name,
            model=self._endpoint.model,
            dialect=None if dialect == NATIVE else dialect,
            profile=self._settings.get("profile", AUTO),
            in_reasoning=self._settings.get("in_reasoning", ""),
            constrain=self._settings.get("constrain", AUTO),
            api_key=None if key is None else key.reveal(),
            timeouts=self._timeouts,
        )

    def _is_sequential(self) -> bool:
        return "company" in self._findings and self._findings["company"].verdict == "no"

    def _has_short_context(self) -> bool:
        room = self._context_length()
        return room is not None and room < _LONG_CASE_CONTEXT

    def _context_length(self) -> int | None:
        room = self._findings["context"].value if "context" in self._findings else None
        return room if isinstance(room, int) else None

    def _max_tokens(self) -> int:
        thinks = "reasoning" in self._findings and self._findings["reasoning"].verdict == "yes"
        return min(
            _MAX_REASONING_TOKENS if thinks else _MAX_TOKENS, (self._context_length() or _LONG_CASE_CONTEXT) // 4
        )


def format_settings(diagnosis: Diagnosis) -> str:
    """Give the settings as the text of a TOML file."""
    about = (
        f"Found out by `fcshim doctor {diagnosis.upstream}` for the model {diagnosis.model!r}, "
        f"in {diagnosis.requests} requests. Use it with: fcshim serve --config FILE"
    )
    return render_settings(diagnosis.choices, diagnosis.table, about)
