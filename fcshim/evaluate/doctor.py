"""The doctor: examines an endpoint with probes, compares dialects in trials, and recommends settings.

Rule: every finding comes from a real request, and the number of requests is reported.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import msgspec

from fcshim.client import Client
from fcshim.config import Config
from fcshim.constrain.constraint import dialect_note
from fcshim.evaluate.case import Case
from fcshim.evaluate.comparison import Trial, best_trial, candidate_dialects, run_trial, select_cases
from fcshim.evaluate.connect import EndpointInfo, connect
from fcshim.evaluate.probes import run_probes
from fcshim.evaluate.recommendations import Recommendation, model_pattern, recommend, recommend_dialect
from fcshim.evaluate.result import NATIVE, Finding, Result
from fcshim.evaluate.runner import CONCURRENCY
from fcshim.evaluate.settings_file import render_settings
from fcshim.evaluate.suite import DEFAULT_CATEGORIES
from fcshim.evaluate.target import ProbeTarget
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.prompt.profiles import AUTO
from fcshim.upstream import Timeouts, Upstream
from fcshim.upstream.endpoint import timeouts_of

DEFAULT_CASES = 24
"""Cases for each dialect: enough to distinguish dialects that work from those that do not, in minutes on a CPU."""
_MAX_TOKENS, _MAX_REASONING_TOKENS = 512, 2048
"""Limits on the tokens of a reply, and of a reply of a model that reasons first."""
_LONG_CASE_CONTEXT = 8192
"""Tokens of context that the longest cases need."""
_LONG_CATEGORIES = frozenset(["many_tools", "long_results"])


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The result. `works`: the model can make tool calls; `table`: the model's pattern in the settings."""

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
    dialect: str
    """The dialect of the best trial, or `native`; empty if there was no trial, or none worked."""
    choices: tuple[Recommendation, ...]


@dataclass(frozen=True, slots=True)
class DoctorCallbacks:
    """Callbacks for progress: the endpoint, each finding, each case (dialect, done, total), each trial."""

    on_connect: Callable[[EndpointInfo], None]
    on_finding: Callable[[Finding], None]
    on_case: Callable[[str, int, int], None]
    on_trial: Callable[[Trial], None]


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """Options of a diagnosis. `api` None: the one the backend prefers; `cases`: for each dialect, 0 for no trials."""

    api: str | None = None
    model: str = ""
    cases: int = DEFAULT_CASES
    categories: tuple[str, ...] = ()


async def diagnose(config: Config, options: DoctorOptions, callbacks: DoctorCallbacks) -> Diagnosis:
    """Examine the upstream of the configuration.

    Raises `ConfigError` for an unknown category, `UpstreamError` if the upstream is unreachable or has no such API.
    """
    cases = select_cases(options.categories or DEFAULT_CATEGORIES, options.cases)
    timeouts = timeouts_of(config)
    endpoint = await connect(config.upstream, options.api, options.model, config.upstream_key, timeouts)
    callbacks.on_connect(endpoint)
    findings, request_count = await _examine(config, timeouts, endpoint, callbacks)
    replies = not any(finding.fatal for finding in findings)
    runner = _TrialRunner(config, timeouts, endpoint, findings)
    trials = [trial async for trial in runner.run_trials(cases, callbacks)] if replies and cases else []
    best = best_trial(trials)
    return Diagnosis(
        upstream=endpoint.url,
        upstream_api=endpoint.kind.name,
        server=endpoint.detection.backend.name,
        evidence=endpoint.detection.evidence,
        model=endpoint.model,
        models=len(endpoint.model_names),
        table=model_pattern(endpoint),
        works=replies and (best is not None or not trials),
        requests=request_count + sum(trial.cases for trial in trials),
        findings=tuple(findings),
        trials=tuple(trials),
        dialect="" if best is None else best.dialect,
        choices=_recommend(config, endpoint, findings, trials),
    )


async def _examine(
    config: Config, timeouts: Timeouts, endpoint: EndpointInfo, callbacks: DoctorCallbacks
) -> tuple[list[Finding], int]:
    """Run the probes; return the findings and the number of requests."""
    findings = []
    async with Upstream(endpoint.url, key=config.upstream_key, timeouts=timeouts, kind=endpoint.kind) as upstream:
        target = ProbeTarget(upstream, endpoint.model, endpoint.detection.backend, endpoint.detection.model_list)
        async for finding in run_probes(target):
            callbacks.on_finding(finding)
            findings.append(finding)
    return findings, target.request_count


def _recommend(
    config: Config, endpoint: EndpointInfo, findings: Sequence[Finding], trials: Sequence[Trial]
) -> tuple[Recommendation, ...]:
    best = best_trial(trials)
    if best is not None:
        return recommend(endpoint, findings, recommend_dialect(best, trials))
    dialect = chosen_dialect(config.for_model(endpoint.model).dialect, endpoint.model)
    return recommend(endpoint, findings, note=dialect_note(dialect))


class _TrialRunner:
    """Runs a trial of each candidate dialect, with the settings that the findings recommend."""

    def __init__(self, config: Config, timeouts: Timeouts, endpoint: EndpointInfo, findings: Sequence[Finding]) -> None:
        self._config = config
        self._timeouts = timeouts
        self._endpoint = endpoint
        self._findings = {finding.probe: finding for finding in findings}
        self._settings = {choice.setting: str(choice.value) for choice in recommend(endpoint, findings)}

    async def run_trials(self, cases: Sequence[Case], callbacks: DoctorCallbacks) -> AsyncIterator[Trial]:
        """Run the cases in every candidate dialect, one after the other, and yield the trials."""
        tools = self._findings.get("tools")
        native = tools is not None and (tools.verdict == "yes" or tools.value == "required")
        # The prompts of the long categories do not fit a short context, in any dialect.
        fitting = [case for case in cases if not (self._has_short_context() and case.category in _LONG_CATEGORIES)]
        dialects = candidate_dialects(
            self._endpoint.model, native=native, provider_api=self._endpoint.kind.allows_verbatim
        )
        for dialect in dialects:
            done = 0

            def count(_: Result, dialect: str = dialect) -> None:
                nonlocal done
                done += 1
                callbacks.on_case(dialect, done, len(fitting))

            async with self._client(dialect) as client:
                trial = await run_trial(
                    dialect,
                    client,
                    fitting,
                    count,
                    own=dialect == dialects[0],
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
        return "concurrency" in self._findings and self._findings["concurrency"].verdict == "no"

    def _has_short_context(self) -> bool:
        tokens = self._context_length()
        return tokens is not None and tokens < _LONG_CASE_CONTEXT

    def _context_length(self) -> int | None:
        tokens = self._findings["context"].value if "context" in self._findings else None
        return tokens if isinstance(tokens, int) else None

    def _max_tokens(self) -> int:
        emits_reasoning = "reasoning" in self._findings and self._findings["reasoning"].verdict == "yes"
        # A reply gets at most a quarter of the context; the rest is for the prompt.
        return min(
            _MAX_REASONING_TOKENS if emits_reasoning else _MAX_TOKENS,
            (self._context_length() or _LONG_CASE_CONTEXT) // 4,
        )


def format_settings(diagnosis: Diagnosis) -> str:
    """Return the settings as the text of a TOML file."""
    about = (
        f"Written by `fcshim doctor {diagnosis.upstream}` for the model {diagnosis.model!r}, "
        f"in {diagnosis.requests} requests. Use it with: fcshim serve --config FILE"
    )
    return render_settings(diagnosis.choices, diagnosis.table, about)
