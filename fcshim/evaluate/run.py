"""A whole run: every dialect of a plan, one after the other, with what an earlier run left.

Rule: dialects never run at once, so that their times can be compared.
Neighbours: `plan` says what, `runner` asks, `record` keeps, `cli.eval` shows.
"""

from collections.abc import Callable

import msgspec

from fcshim.client import Client
from fcshim.errors import UpstreamError
from fcshim.evaluate.plan import EvalPlan
from fcshim.evaluate.result import Result
from fcshim.evaluate.result_file import ResultFile
from fcshim.evaluate.runner import evaluate


async def resolve_model(plan: EvalPlan) -> EvalPlan:
    """Name the model, where the plan does not. Raises `UpstreamError` where the endpoint lists none."""
    if plan.model:
        return plan
    async with Client(plan.config.upstream, api=plan.config.upstream_api, api_key=_key(plan)) as client:
        names = await client.models()
    if not names:
        raise UpstreamError("the endpoint lists no models: name one with --model")
    return msgspec.structs.replace(plan, model=names[0])


async def run_plan(plan: EvalPlan, result_file: ResultFile, on_result: Callable[[Result], None]) -> None:
    """Ask what the record does not have yet. Raises `UpstreamError` where the endpoint fails again and again."""

    def keep(result: Result) -> None:
        result_file.add(result)
        on_result(result)

    for dialect in plan.labels():
        missing = [case for case in plan.cases() if not result_file.has(dialect, case.id)]
        async with plan.client(dialect) as client:
            await evaluate(
                client,
                missing,
                dialect=dialect,
                sampling=plan.sampling,
                concurrency=plan.concurrency,
                timeout=plan.timeout,
                on_result=keep,
            )


def results_of(plan: EvalPlan, result_file: ResultFile) -> list[Result]:
    """Give the plan's results as far as they are there, by dialect and case; the record may hold others."""
    found = {(result.dialect, result.id): result for result in result_file.results}
    wanted = [(dialect, case.id) for dialect in plan.labels() for case in plan.cases()]
    return [found[key] for key in wanted if key in found]


def _key(plan: EvalPlan) -> str | None:
    key = plan.config.upstream_key
    return key.reveal() if key else None
