"""The doctor: an endpoint is looked at from all sides, and what follows for its settings is written down.

Rule: every statement rests on a real request; what is measured costs a known number of them.
Neighbours: `contact`, `probes` and `prescription` do the work; the command `doctor` shows it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fcshim.config import Config
from fcshim.evaluate.contact import Contact, meet
from fcshim.evaluate.finding import Finding
from fcshim.evaluate.patient import Patient
from fcshim.evaluate.prescription import Choice, prescribe, table_for
from fcshim.evaluate.probes import examine
from fcshim.evaluate.profile_file import write_settings
from fcshim.upstream import Timeouts, Upstream


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
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Watch:
    """Is told what happens while it happens."""

    met: Callable[[Contact], None]
    found: Callable[[Finding], None]


async def diagnose(config: Config, watch: Watch, *, api: str | None = None, model: str = "") -> Diagnosis:
    """Examine the configuration's upstream, in the API that is named or that its server speaks best.

    Raises `UpstreamError` where it is away or is no such endpoint.
    """
    timeouts = Timeouts(
        connect=config.connect_timeout, first_chunk=config.first_chunk_timeout, chunk=config.chunk_timeout
    )
    contact = await meet(config.upstream, api, model, config.upstream_key, timeouts)
    watch.met(contact)
    async with Upstream(contact.url, key=config.upstream_key, timeouts=timeouts, kind=contact.kind) as upstream:
        patient = Patient(upstream, contact.model, contact.sighting.server, contact.sighting.document)
        findings = []
        async for finding in examine(patient):
            watch.found(finding)
            findings.append(finding)
    return Diagnosis(
        upstream=contact.url,
        upstream_api=contact.kind.name,
        server=contact.sighting.server.name,
        evidence=contact.sighting.evidence,
        model=contact.model,
        models=len(contact.names),
        table=table_for(contact),
        works=not any(finding.fatal for finding in findings),
        requests=patient.requests,
        findings=tuple(findings),
        choices=prescribe(contact, findings),
    )


def settings_of(diagnosis: Diagnosis) -> str:
    """Give the settings as the text of a TOML file."""
    about = (
        f"Found out by `fcshim doctor {diagnosis.upstream}` for the model {diagnosis.model!r}, "
        f"in {diagnosis.requests} requests. Use it with: fcshim serve --config FILE"
    )
    return write_settings(diagnosis.choices, diagnosis.table, about)
