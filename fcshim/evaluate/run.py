"""Runs an evaluation plan: every dialect in turn, except for the cases that an earlier run has answered.

Rule: dialects never run at the same time, so that their times can be compared.
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
    """Return the plan with a model: if it names none, the first that the endpoint lists. Raises `UpstreamError`."""
    if plan.model:
        return plan
    async with Client(plan.config.upstream, api=plan.config.upstream_api, api_key=_key(plan)) as client:
        names = await client.models()
    if not names:
        raise UpstreamError("the endpoint lists no models: name one with --model")
    return msgspec.structs.replace(plan, model=names[0])


async def run_plan(plan: EvalPlan, result_file: ResultFile, on_result: Callable[[Result], None]) -> None:
    """Run the cases without a result and append their results. Raises `UpstreamError` if the endpoint keeps failing."""

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
    """Return the results of the plan that exist so far, by dialect and case; the file may hold results of others."""
    known = {(result.dialect, result.id): result for result in result_file.results}
    planned = [(dialect, case.id) for dialect in plan.labels() for case in plan.cases()]
    return [known[key] for key in planned if key in known]


def _key(plan: EvalPlan) -> str | None:
    key = plan.config.upstream_key
    return key.reveal() if key else None
