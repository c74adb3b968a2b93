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
from fcshim.evaluate.contact import Contact, meet
from fcshim.evaluate.finding import Finding
from fcshim.evaluate.patient import Patient
from fcshim.evaluate.prescription import Choice, chosen_way, prescribe, table_for
from fcshim.evaluate.probes import examine
from fcshim.evaluate.profile_file import write_settings
from fcshim.evaluate.result import NATIVE, Result
from fcshim.evaluate.runner import CONCURRENCY
from fcshim.evaluate.suite import DEFAULT_CATEGORIES
from fcshim.evaluate.trial import Trial, attempt, best_of, chosen_cases, ways_for
from fcshim.profiles import AUTO
from fcshim.upstream import Timeouts, Upstream

CASES = 24
"""Cases for each way: enough to tell what works from what does not, in minutes on a CPU."""
_TOKENS, _THOUGHT_TOKENS = 512, 2048
"""Tokens of a reply; those of a model that reasons first."""
_ROOMY = 8192
"""Tokens of context that the longest cases need."""
_LONG = frozenset(["many_tools", "long_results"])


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
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Watch:
    """Is told what happens while it happens: who is there, each finding, each case of a way, each way."""

    met: Callable[[Contact], None]
    found: Callable[[Finding], None]
    asked: Callable[[str, int, int], None]
    tried: Callable[[Trial], None]


@dataclass(frozen=True, slots=True)
class Order:
    """What the doctor is asked to do: `api` and `model` where they are named; `cases` for each way, 0 for none."""

    api: str | None = None
    model: str = ""
    cases: int = CASES
    categories: tuple[str, ...] = ()


async def diagnose(config: Config, order: Order, watch: Watch) -> Diagnosis:
    """Examine the configuration's upstream, in the API that is named or that its server speaks best.

    Raises `ConfigError` for an unknown category, `UpstreamError` where the upstream is away or is no such endpoint.
    """
    cases = chosen_cases(order.categories or DEFAULT_CATEGORIES, order.cases)
    timeouts = Timeouts(
        connect=config.connect_timeout, first_chunk=config.first_chunk_timeout, chunk=config.chunk_timeout
    )
    contact = await meet(config.upstream, order.api, order.model, config.upstream_key, timeouts)
    watch.met(contact)
    async with Upstream(contact.url, key=config.upstream_key, timeouts=timeouts, kind=contact.kind) as upstream:
        patient = Patient(upstream, contact.model, contact.sighting.backend, contact.sighting.model_list)
        findings = []
        async for finding in examine(patient):
            watch.found(finding)
            findings.append(finding)
    well = not any(finding.fatal for finding in findings)
    ward = _Ward(config, timeouts, contact, findings)
    trials = [trial async for trial in ward.try_ways(cases, watch)] if well and cases else []
    best = best_of(trials)
    return Diagnosis(
        upstream=contact.url,
        upstream_api=contact.kind.name,
        server=contact.sighting.backend.name,
        evidence=contact.sighting.evidence,
        model=contact.model,
        models=len(contact.names),
        table=table_for(contact),
        works=well and (best is not None or not trials),
        requests=patient.requests + sum(trial.cases for trial in trials),
        findings=tuple(findings),
        trials=tuple(trials),
        way="" if best is None else best.way,
        choices=prescribe(contact, findings, () if best is None else chosen_way(best, trials)),
    )


class _Ward:
    """Where ways of asking are tried, with the settings that the findings call for."""

    def __init__(self, config: Config, timeouts: Timeouts, contact: Contact, findings: Sequence[Finding]) -> None:
        self._config = config
        self._timeouts = timeouts
        self._contact = contact
        self._found = {finding.probe: finding for finding in findings}
        self._set = {choice.setting: str(choice.value) for choice in prescribe(contact, findings)}

    async def try_ways(self, cases: Sequence[Case], watch: Watch) -> AsyncIterator[Trial]:
        """Ask the cases in every way that makes sense, one way after the other."""
        tools = self._found.get("tools")
        able = tools is not None and (tools.verdict == "yes" or tools.value == "required")
        fitting = [case for case in cases if not (self._is_tight() and case.category in _LONG)]
        ways = ways_for(self._contact.model, native=able, faithful=self._contact.kind.allows_verbatim)
        for way in ways:
            done = 0

            def count(_: Result, way: str = way) -> None:
                nonlocal done
                done += 1
                watch.asked(way, done, len(fitting))

            async with self._client(way) as client:
                trial = await attempt(
                    way,
                    client,
                    fitting,
                    count,
                    own=way == ways[0],
                    max_tokens=self._most_tokens(),
                    concurrency=1 if self._is_alone() else CONCURRENCY,
                )
            watch.tried(trial)
            yield trial

    def _client(self, way: str) -> Client:
        key = self._config.upstream_key
        return Client(
            self._contact.url,
            api=self._contact.kind.name,
            model=self._contact.model,
            dialect=None if way == NATIVE else way,
            profile=self._set.get("profile", AUTO),
            in_reasoning=self._set.get("in_reasoning", ""),
            constrain=self._set.get("constrain", AUTO),
            api_key=None if key is None else key.reveal(),
            timeouts=self._timeouts,
        )

    def _is_alone(self) -> bool:
        return "company" in self._found and self._found["company"].verdict == "no"

    def _is_tight(self) -> bool:
        room = self._room()
        return room is not None and room < _ROOMY

    def _room(self) -> int | None:
        room = self._found["context"].value if "context" in self._found else None
        return room if isinstance(room, int) else None

    def _most_tokens(self) -> int:
        thinks = "reasoning" in self._found and self._found["reasoning"].verdict == "yes"
        return min(_THOUGHT_TOKENS if thinks else _TOKENS, (self._room() or _ROOMY) // 4)


def settings_of(diagnosis: Diagnosis) -> str:
    """Give the settings as the text of a TOML file."""
    about = (
        f"Found out by `fcshim doctor {diagnosis.upstream}` for the model {diagnosis.model!r}, "
        f"in {diagnosis.requests} requests. Use it with: fcshim serve --config FILE"
    )
    return write_settings(diagnosis.choices, diagnosis.table, about)
