"""The doctor: examines an endpoint with probes, races candidate settings, and recommends the best.

Rule: every finding comes from a real request, and the number of requests is reported. `Doctor.diagnosis` is usable at
every moment after the connection, so that an interruption costs only what was not yet found.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from fcshim.client import Client
from fcshim.config import Config, ModelSettings
from fcshim.constrain.constraint import dialect_note
from fcshim.evaluate.candidates import Candidate, candidates_for
from fcshim.evaluate.connect import EndpointInfo, connect
from fcshim.evaluate.probes import run_probes
from fcshim.evaluate.race import Race, RaceLimits, RaceProgress
from fcshim.evaluate.recommendations import (
    Recommendation,
    explain,
    find_context,
    model_pattern,
    recommend,
    recommend_candidate,
)
from fcshim.evaluate.result import NATIVE, Finding
from fcshim.evaluate.settings_file import render_settings
from fcshim.evaluate.standings import CandidateReport, Standing, report_on
from fcshim.evaluate.suite import RACE, select_cases
from fcshim.evaluate.target import ProbeTarget
from fcshim.events import JSON
from fcshim.model_defaults import defaults_for
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.prompt.profiles import AUTO
from fcshim.upstream import Upstream
from fcshim.upstream.endpoint import timeouts_of
from fcshim.upstream.measured import MeasuredModel, load_measured, save_measured
from fcshim.upstream.model_identity import ModelIdentity, identify
from fcshim.upstream.model_resolution import real_name

BUDGET, QUICK_BUDGET = 420.0, 80.0
"""Seconds for the race. Of a model of 0.5B parameters on two cores, they leave the probes a minute, and ten seconds."""
_FIRST_ROUND, _QUICK_FIRST_ROUND = 16, 4
"""Cases that each candidate gets before any is dropped. In simulations with six candidates, within the budget above,
larger first rounds leave too few cases for the finalists, and smaller ones drop the best candidate more often."""
_MAX_TOKENS, _MAX_REASONING_TOKENS = 160, 2048
"""Limits on the tokens of a reply, and of a reply of a model that reasons first."""
_DEFAULT_CONTEXT = 8192
"""Tokens of context where the endpoint does not tell."""


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
    candidates: tuple[CandidateReport, ...]
    best: str
    """The name of the best candidate; empty if none made a right call."""
    dialect: str
    """Its dialect, or `native`."""
    reason: str
    """Why it is the best; empty without one."""
    complete: bool
    """False after an interruption; `best` is the best so far."""
    decided: bool
    """Whether the race was decided before its time was over."""
    kept: bool
    """Whether the result is kept for the model."""
    choices: tuple[Recommendation, ...]


@dataclass(frozen=True, slots=True)
class DoctorCallbacks:
    """Callbacks for progress: the endpoint, each finding, each step of the race, each round of a candidate."""

    on_connect: Callable[[EndpointInfo], None]
    on_finding: Callable[[Finding], None]
    on_progress: Callable[[RaceProgress], None]
    on_round: Callable[[Standing], None]


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """Options of a diagnosis.

    `api` None: the one the backend prefers. `quick`: few probes and a short race. `budget`: seconds for the race, None
    for the default. `cases`: at most so many for each candidate. `categories`: empty for the cases of the race.
    `context_seconds`: time for measuring the context length, 0 to believe what the server reports.
    """

    api: str | None = None
    model: str = ""
    quick: bool = False
    budget: float | None = None
    cases: int | None = None
    categories: tuple[str, ...] = ()
    context_seconds: float = 0.0


class Doctor:
    """Examines the upstream of the configuration. Raises `ConfigError` for an unknown category."""

    def __init__(self, config: Config, options: DoctorOptions, callbacks: DoctorCallbacks) -> None:
        self._config = config
        self._options = options
        self._callbacks = callbacks
        self._cases = select_cases(options.categories or (RACE,), options.cases)
        self._timeouts = timeouts_of(config)
        self._endpoint: EndpointInfo | None = None
        self._findings: list[Finding] = []
        self._probe_requests = 0
        self._emits_reasoning = False
        self._race: Race | None = None
        self._identity: ModelIdentity | None = None
        self._ended = False
        self._kept = False

    @property
    def connected(self) -> bool:
        """Whether the endpoint and its model are known, so that there is a diagnosis."""
        return self._endpoint is not None

    async def run(self) -> None:
        """Connect, run the probes, then the race. Raises `UpstreamError` if the upstream is unreachable."""
        key, options = self._config.upstream_key, self._options
        self._endpoint = await connect(self._config.upstream, options.api, options.model, key, self._timeouts)
        self._callbacks.on_connect(self._endpoint)
        url, kind = self._endpoint.url, self._endpoint.kind
        async with Upstream(url, key=key, timeouts=self._timeouts, kind=kind) as upstream:
            self._identity = await identify(upstream, self._endpoint.model)
            await self._run_probes(upstream, self._endpoint)
            if any(finding.fatal for finding in self._findings):
                self._ended = True
                return
            candidates = self._select_candidates(self._endpoint)
        self._race = Race(
            candidates,
            self._cases,
            self._open_client,
            self._limits(),
            on_progress=self._callbacks.on_progress,
            on_round=self._callbacks.on_round,
        )
        await self._race.run()
        self._ended = True

    async def _run_probes(self, upstream: Upstream, endpoint: EndpointInfo) -> None:
        target = ProbeTarget(upstream, endpoint.model, endpoint.detection.backend, endpoint.detection.model_list)
        target.context_seconds = self._options.context_seconds
        async for finding in run_probes(target, quick=self._options.quick):
            self._findings.append(finding)
            self._probe_requests = target.request_count
            self._callbacks.on_finding(finding)
        self._emits_reasoning = (
            target.emits_reasoning
            or bool(target.baseline.reply.reasoning)
            or bool(defaults_for(endpoint.model).reasoning_tag)
        )

    def _select_candidates(self, endpoint: EndpointInfo) -> Sequence[Candidate]:
        """Return the candidates; native tools if they work, or were not probed and the server does not deny them."""
        tools = next((finding for finding in self._findings if finding.probe == "tools"), None)
        if tools is None:
            native = self._identity is None or self._identity.native_tools is not False
        else:
            native = tools.verdict == "yes" or tools.value == "required"
        model = endpoint.model if self._identity is None else real_name(self._identity)
        return candidates_for(model, native=native, provider_api=endpoint.kind.allows_verbatim)

    def _open_client(self, candidate: Candidate, **others: JSON) -> Client:
        """Return the client of a candidate, with the settings that the findings recommend."""
        assert self._endpoint is not None
        key = self._config.upstream_key
        found = {choice.setting: choice.value for choice in recommend(self._endpoint, self._findings)}
        settings: dict[str, JSON] = {name: found[name] for name in _FOUND_SETTINGS if name in found}
        return Client(
            self._endpoint.url,
            api=self._endpoint.kind.name,
            model=self._endpoint.model,
            api_key=None if key is None else key.reveal(),
            timeouts=self._timeouts,
            measured=False,  # an earlier result must not change what is compared
            **{"constrain": AUTO, **settings, **candidate.settings, **others},
        )

    def _limits(self) -> RaceLimits:
        quick, budget = self._options.quick, self._options.budget
        context = find_context(self._findings)
        # A reply gets at most a quarter of the context; the rest is for the prompt.
        room = (context.value if context else _DEFAULT_CONTEXT) // 4
        return RaceLimits(
            budget=budget or (QUICK_BUDGET if quick else BUDGET),
            first_round=_QUICK_FIRST_ROUND if quick else _FIRST_ROUND,
            max_tokens=min(_MAX_REASONING_TOKENS if self._emits_reasoning else _MAX_TOKENS, room),
        )

    def keep(self, date: str) -> None:
        """Keep the settings of the best candidate for the model; `date` is today's, in ISO form.

        What an interrupted race found does not replace what a whole one has found before.
        """
        race, identity = self._race, self._identity
        if race is None or identity is None or race.winner is None:
            return
        earlier = load_measured(identity.key)
        if not race.ended and earlier is not None and earlier.complete and earlier.settings:
            return
        probes = {
            each.settings["dialect"]: each.probe
            for each in race.standings
            if each.probe is not None and "dialect" in each.settings
        }
        # Kept is what follows from the weights of the model and its template, not from its server.
        reasoning = next((each.value for each in self._findings if each.probe == "reasoning"), None)
        settings = {**(reasoning if isinstance(reasoning, dict) else {}), **race.winner.settings}
        measured = MeasuredModel(
            model=identity.name,
            settings={name: settings[name] for name in settings if name in ModelSettings.__struct_fields__},
            reason=explain(report_on(race.winner), tuple(map(report_on, race.standings))),
            date=date,
            complete=race.ended,
            probes={**({} if earlier is None else earlier.probes), **probes},
        )
        save_measured(identity.key, measured)
        self._kept = load_measured(identity.key) == measured

    def diagnosis(self) -> Diagnosis:
        """Return what is known so far. Call it only when `connected`."""
        endpoint, race = self._endpoint, self._race
        assert endpoint is not None
        winner = None if race is None else race.winner
        reports = () if race is None else tuple(map(report_on, race.standings))
        best = None if winner is None else report_on(winner)
        if best is not None:
            choices = recommend(endpoint, self._findings, recommend_candidate(best, reports))
        else:
            dialect = chosen_dialect(self._config.for_model(endpoint.model).dialect, endpoint.model)
            choices = recommend(endpoint, self._findings, note=dialect_note(dialect))
        return Diagnosis(
            upstream=endpoint.url,
            upstream_api=endpoint.kind.name,
            server=endpoint.detection.backend.name,
            evidence=endpoint.detection.evidence,
            model=endpoint.model,
            models=len(endpoint.model_names),
            table=model_pattern(endpoint),
            works=best is not None,
            requests=self._probe_requests + (0 if race is None else race.requests),
            findings=tuple(self._findings),
            candidates=reports,
            best="" if best is None else best.name,
            dialect="" if best is None else best.settings.get("dialect", NATIVE),
            reason="" if best is None else explain(best, reports),
            complete=self._ended,
            decided=race is not None and race.decided,
            kept=self._kept,
            choices=choices,
        )


_FOUND_SETTINGS = ("profile", "open_reasoning_tag", "constrain")
"""Settings that follow from findings, with which all candidates run."""


def format_settings(diagnosis: Diagnosis) -> str:
    """Return the settings as the text of a TOML file."""
    about = (
        f"Written by `fcshim doctor {diagnosis.upstream}` for the model {diagnosis.model!r}, "
        f"in {diagnosis.requests} requests. Use it with: fcshim serve --config FILE"
    )
    return render_settings(diagnosis.choices, diagnosis.table, about)
