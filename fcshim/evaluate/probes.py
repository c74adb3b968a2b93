"""The table of probes, in the order in which they run.

Rule: a probe sends a few requests of a few tokens. The first probe sets the baseline, and must succeed. The quick
probes take three seconds together on a CPU: they find what keeps a model from seeing the tools at all.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import msgspec

from fcshim.codecs.upstreams import UpstreamKind
from fcshim.evaluate.probes_calls import (
    probe_grammar,
    probe_schema,
    probe_structural_tag,
    probe_text_calls,
    probe_tools,
)
from fcshim.evaluate.probes_context import probe_measured_context
from fcshim.evaluate.probes_prompt import (
    probe_context_length,
    probe_developer_role,
    probe_images,
    probe_prefill,
    probe_system_role,
    probe_turn_order,
)
from fcshim.evaluate.probes_reply import (
    probe_concurrency,
    probe_reasoning,
    probe_reasoning_replay,
    probe_reply,
    probe_stop_strings,
    probe_stream,
    probe_usage,
)
from fcshim.evaluate.result import Finding, ProbeResult
from fcshim.evaluate.target import ProbeTarget


def _is_any(_kind: UpstreamKind) -> bool:
    return True


def _is_local(kind: UpstreamKind) -> bool:
    return not kind.allows_verbatim


def _is_openai(kind: UpstreamKind) -> bool:
    return kind.full_openai_api and not kind.allows_verbatim


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe: its name, its title in the report, its function, the APIs to which it applies, whether it is quick.

    `run` returns None if earlier probes have made the question pointless.
    """

    name: str
    title: str
    run: Callable[[ProbeTarget], Awaitable[ProbeResult | None]]
    applies_to: Callable[[UpstreamKind], bool] = _is_any
    quick: bool = False


PROBES: tuple[Probe, ...] = (
    Probe("reply", "gives replies", probe_reply, quick=True),
    Probe("usage", "counts tokens", probe_usage, quick=True),
    Probe("stream", "streams cleanly", probe_stream, quick=True),
    Probe("concurrency", "several requests at once", probe_concurrency, _is_local),
    Probe("context", "context length", probe_context_length, quick=True),
    Probe("measured_context", "context length, measured", probe_measured_context, quick=True),
    Probe("system", "system messages", probe_system_role, quick=True),
    Probe("order", "messages in any order", probe_turn_order),
    Probe("developer", "developer messages", probe_developer_role, _is_openai),
    Probe("images", "images", probe_images, quick=True),
    Probe("prefill", "continues a prefilled reply", probe_prefill, _is_local),
    Probe("stop", "stop strings", probe_stop_strings),
    Probe("reasoning", "reasoning", probe_reasoning),
    Probe("replay", "earlier reasoning in the prompt", probe_reasoning_replay),
    Probe("tools", "native tool calling", probe_tools),
    Probe("text_calls", "leaves calls in the text", probe_text_calls, _is_local),
    Probe("grammar", "obeys a grammar (GBNF)", probe_grammar, _is_openai),
    Probe("schema", "obeys a JSON Schema", probe_schema, _is_local),
    Probe("structural_tag", "obeys a structural tag", probe_structural_tag, _is_openai),
)


async def run_probes(target: ProbeTarget, *, quick: bool = False) -> AsyncIterator[Finding]:
    """Run the probes that apply to the endpoint and yield their findings, up to the first fatal one.

    `quick`: only the quick ones.
    """
    for probe in PROBES:
        if (quick and not probe.quick) or not probe.applies_to(target.upstream.kind):
            continue
        result = await probe.run(target)
        if result is None:
            continue
        yield Finding(probe=probe.name, title=probe.title, **msgspec.structs.asdict(result))
        if result.fatal:
            return
