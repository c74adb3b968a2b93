"""All probes, in the order in which they are made: data.

Rule: a probe is a row; it asks few requests of few tokens and gives what it saw. The first must succeed.
Neighbours: the `probes_*` modules ask; the doctor goes through the table.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import msgspec

from fcshim.codecs.upstreams import UpstreamKind
from fcshim.evaluate.finding import Finding, ProbeResult
from fcshim.evaluate.probes_calls import probe_grammar, probe_schema, probe_structural_tag, probe_tools
from fcshim.evaluate.probes_prompt import (
    probe_context_length,
    probe_developer_role,
    probe_images,
    probe_prefill,
    probe_system_role,
    probe_turn_order,
)
from fcshim.evaluate.probes_reasoning import probe_reasoning, probe_reasoning_replay
from fcshim.evaluate.probes_reply import probe_concurrency, probe_reply, probe_stop_strings, probe_stream, probe_usage
from fcshim.evaluate.target import ProbeTarget


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
    run: Callable[[ProbeTarget], Awaitable[ProbeResult | None]]
    applies_to: Callable[[UpstreamKind], bool] = _is_any


PROBES: tuple[Probe, ...] = (
    Probe("reply", "gives replies", probe_reply),
    Probe("usage", "counts tokens", probe_usage),
    Probe("stream", "streams cleanly", probe_stream),
    Probe("company", "several requests at once", probe_concurrency, _is_local),
    Probe("context", "room for a conversation", probe_context_length),
    Probe("system", "system messages", probe_system_role),
    Probe("order", "turns in any order", probe_turn_order),
    Probe("developer", "developer messages", probe_developer_role, _is_openai),
    Probe("images", "images", probe_images),
    Probe("prefill", "goes on with an answer begun for it", probe_prefill, _is_local),
    Probe("stop", "stop strings", probe_stop_strings),
    Probe("reasoning", "reasoning", probe_reasoning),
    Probe("replay", "sees earlier reasoning again", probe_reasoning_replay),
    Probe("tools", "tools of its own", probe_tools),
    Probe("grammar", "held by a grammar (GBNF)", probe_grammar, _is_openai),
    Probe("schema", "held by a JSON Schema", probe_schema, _is_local),
    Probe("structural_tag", "held by a structural tag", probe_structural_tag, _is_openai),
)


async def run_probes(target: ProbeTarget) -> AsyncIterator[Finding]:
    """Make all probes that fit the endpoint; after a finding that is fatal there is nothing more to be found out."""
    for probe in PROBES:
        if not probe.applies_to(target.upstream.kind):
            continue
        seen = await probe.run(target)
        if seen is None:
            continue
        yield Finding(probe=probe.name, title=probe.title, **msgspec.structs.asdict(seen))
        if seen.fatal:
            return
