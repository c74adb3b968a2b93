"""What requests for each model of an upstream get, for people: the table of the banner, `models` and the inspector."""

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec

from fcshim.config import Config, ModelConfig
from fcshim.constrain.constraint import dialect_note
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.prompt.profiles import chosen_profile
from fcshim.sanitize import sanitize_line
from fcshim.upstream.capabilities import Capabilities
from fcshim.upstream.detection import loads_on_demand
from fcshim.upstream.model_resolution import BY_SETTING

_MAX_TRIAL = 8.0
"""Seconds for which a report waits for the trial of a dialect; the banner waits for 10 in all."""


class ModelReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tool calling, dialect and profile that requests for one model get.

    `tools`: `native` or `prompt`, and `tools_reason` says why; `auto` if the server would have to load the model to
    answer. `note`: why its calls cannot be constrained, if they cannot. `left_out`: what the upstream refused so far.
    """

    model: str
    tools: str
    dialect: str
    profile: str
    note: str = ""
    left_out: tuple[str, ...] = ()
    upstream: str = ""
    """The name of the upstream, where there are several, and `health`, where it is not good."""
    health: str = ""
    reason: str = ""
    """Why the model has its dialect."""
    tools_reason: str = ""


async def model_reports(config: Config, capabilities: Capabilities) -> list[ModelReport]:
    """Return a report for every model that the upstream lists or the settings name. Raises `UpstreamError`."""
    names, listed = await capabilities.upstream.list_models()
    capabilities.models.take_list(listed)
    asks = not loads_on_demand(listed)
    # A trial, or any page about a model, would make some servers load it.
    probe = asks and len(names) == 1
    constrains = config.constrain != "off"
    return [
        await _model_report(name, config.for_model(name), capabilities, constrains=constrains, asks=asks, probe=probe)
        for name in dict.fromkeys([*names, *config.aliases])
    ]


async def _model_report(
    name: str, model: ModelConfig, capabilities: Capabilities, *, constrains: bool, asks: bool, probe: bool
) -> ModelReport:
    upstream_name = model.upstream_model or name
    model = await _resolve_in_time(model, upstream_name, capabilities, probe=probe)
    tools: str = model.tools
    tools_reason = ""
    if asks or tools != "auto" or capabilities.models.known(upstream_name) is not None:
        choice = capabilities.tools.choose(upstream_name, model)
        tools, tools_reason = choice.name, choice.reason
    real_name = model.real_name or upstream_name
    profile, dialect = chosen_profile(model.profile, real_name), chosen_dialect(model.dialect, real_name)
    note = dialect_note(dialect) if constrains and tools != "native" else ""
    left_out = tuple(omission.name for omission in capabilities.omissions(upstream_name))
    return ModelReport(
        name,
        tools,
        dialect.name,
        profile.name,
        note,
        left_out,
        reason=model.dialect_reason or BY_SETTING,
        tools_reason=tools_reason,
    )


async def _resolve_in_time(model: ModelConfig, name: str, capabilities: Capabilities, *, probe: bool) -> ModelConfig:
    """Return the model's settings; a trial of its dialect that takes long is left to the first request."""
    if probe:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_TRIAL):
                return await capabilities.models.resolve(model, name)
    return await capabilities.models.resolve(model, name, probe=False)


def report_table(reports: Sequence[ModelReport]) -> list[str]:
    """Return the reports as lines of a table with a head, safe to show; with the upstreams, where there are several.

    The reason is that for the dialect, or for native tools.
    """
    reports = [msgspec.structs.replace(row, reason=_reason(row)) for row in reports]
    upstream = ["upstream"] if any(row.upstream for row in reports) else []
    columns = ["model", "tools", "dialect", "profile", *upstream, "reason"]
    table = [columns, *([sanitize_line(getattr(row, column)) for column in columns] for row in reports)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _reason(report: ModelReport) -> str:
    return report.tools_reason if report.tools == "native" else report.reason
