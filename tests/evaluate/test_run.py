"""Running a plan against a scripted upstream."""

import pytest

from fcshim.config import Config
from fcshim.errors import UpstreamError
from fcshim.evaluate.plan import EvalPlan
from fcshim.evaluate.result_file import ResultFile
from fcshim.evaluate.run import resolve_model, results_of, run_plan
from tests.scripted import model_list, scripted_upstream, text_reply

TEXT_REPLY = text_reply("I do not know that.")


def plan(url, **fields):
    # Without retries, because the upstream has one reply for each case.
    settings = Config(upstream=url, max_retries=0)
    return EvalPlan(
        **{"config": settings, "model": "m", "categories": ("simple",), "limit": 2, "concurrency": 1, **fields}
    )


async def test_dialects_run_one_after_the_other():
    reported = []
    async with scripted_upstream(*[TEXT_REPLY] * 4) as upstream:
        the_plan = plan(upstream.url, dialects=("hermes", "native"))
        with ResultFile(None, {}) as result_file:
            await run_plan(the_plan, result_file, reported.append)

    assert ["hermes", "hermes", "native", "native"] == [result.dialect for result in reported]
    assert [False, False, True, True] == ["tools" in request.body for request in upstream.requests]
    assert reported == results_of(the_plan, result_file)


async def test_cases_with_a_result_do_not_run_again(tmp_path):
    path = tmp_path / "run.jsonl"
    async with scripted_upstream(*[TEXT_REPLY] * 3) as upstream:
        for limit in (1, 2, 3):
            the_plan = plan(upstream.url, limit=limit)
            with ResultFile(path, the_plan.terms(), resume=True) as result_file:
                await run_plan(the_plan, result_file, lambda result: None)

    assert 3 == len(upstream.requests) == len(result_file.results)


async def test_results_of_another_selection_are_left_out(tmp_path):
    async with scripted_upstream(*[TEXT_REPLY] * 4) as upstream:
        with ResultFile(None, {}) as result_file:
            await run_plan(plan(upstream.url), result_file, lambda result: None)
            await run_plan(plan(upstream.url, categories=("parallel",)), result_file, lambda result: None)

        assert {"parallel"} == {each.category for each in results_of(plan("", categories=("parallel",)), result_file)}


async def test_the_first_listed_model_is_used_if_none_is_named():
    async with scripted_upstream(model_list("first", "second")) as upstream:
        assert "first" == (await resolve_model(plan(upstream.url, model=""))).model
    assert "m" == (await resolve_model(plan("http://127.0.0.1:9"))).model


async def test_an_endpoint_without_a_list_needs_a_model_name():
    async with scripted_upstream(model_list()) as upstream:
        with pytest.raises(UpstreamError, match="--model"):
            await resolve_model(plan(upstream.url, model=""))
