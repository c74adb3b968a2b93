"""All probes, in the order in which they are made: data.

Rule: a probe is a row; it asks few requests of few tokens and gives what it saw. The first must succeed.
Neighbours: the `probes_*` modules ask; the doctor goes through the table.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import msgspec

from fcshim.codecs.upstreams import UpstreamKind
from fcshim.evaluate.finding import Finding, Seen
from fcshim.evaluate.patient import Patient
from fcshim.evaluate.probes_calls import has_tools, takes_grammar, takes_schema, takes_structural_tag
from fcshim.evaluate.probes_prompt import (
    continues,
    has_room,
    takes_any_order,
    takes_developer,
    takes_images,
    takes_system,
)
from fcshim.evaluate.probes_reasoning import reasons, sees_reasoning_again
from fcshim.evaluate.probes_reply import bears_company, counts_tokens, replies, stops, streams_cleanly


def _is_any(_kind: UpstreamKind) -> bool:
    return True


def _is_local(kind: UpstreamKind) -> bool:
    return not kind.allows_verbatim


def _is_openai(kind: UpstreamKind) -> bool:
    return kind.full_openai_api and not kind.allows_verbatim


@dataclass(frozen=True, slots=True)
class Probe:
    """One question: its name, what it is called in a report, who asks it, and for which APIs it makes sense.

    `ask` gives None where the question does not arise.
    """

    name: str
    title: str
    ask: Callable[[Patient], Awaitable[Seen | None]]
    fits: Callable[[UpstreamKind], bool] = _is_any


PROBES: tuple[Probe, ...] = (
    Probe("reply", "gives replies", replies),
    Probe("usage", "counts tokens", counts_tokens),
    Probe("stream", "streams cleanly", streams_cleanly),
    Probe("company", "several requests at once", bears_company, _is_local),
    Probe("context", "room for a conversation", has_room),
    Probe("system", "system messages", takes_system),
    Probe("order", "turns in any order", takes_any_order),
    Probe("developer", "developer messages", takes_developer, _is_openai),
    Probe("images", "images", takes_images),
    Probe("prefill", "goes on with an answer begun for it", continues, _is_local),
    Probe("stop", "stop strings", stops),
    Probe("reasoning", "reasoning", reasons),
    Probe("replay", "sees earlier reasoning again", sees_reasoning_again),
    Probe("tools", "tools of its own", has_tools),
    Probe("grammar", "held by a grammar (GBNF)", takes_grammar, _is_openai),
    Probe("schema", "held by a JSON Schema", takes_schema, _is_local),
    Probe("structural_tag", "held by a structural tag", takes_structural_tag, _is_openai),
)


async def examine(patient: Patient) -> AsyncIterator[Finding]:
    """Make all probes that fit the endpoint; after a finding that is fatal there is nothing more to be found out."""
    for probe in PROBES:
        if not probe.fits(patient.upstream.kind):
            continue
        seen = await probe.ask(patient)
        if seen is None:
            continue
        yield Finding(probe=probe.name, title=probe.title, **msgspec.structs.asdict(seen))
        if seen.fatal:
            return
