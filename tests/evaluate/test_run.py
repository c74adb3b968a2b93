"""A whole run, of an upstream with written answers."""

import pytest

from fcshim.config import Config
from fcshim.errors import UpstreamError
from fcshim.evaluate.plan import EvalPlan
from fcshim.evaluate.result_file import ResultFile
from fcshim.evaluate.run import resolve_model, results_of, run_plan
from tests.scripted import model_list, scripted_upstream, text_reply

TEXT_REPLY = text_reply("I do not know that.")


def plan(url, **fields):
    # Without second tries: one answer is written for each question.
    settings = Config(upstream=url, max_retries=0)
    return EvalPlan(
        **{"config": settings, "model": "m", "categories": ("simple",), "limit": 2, "concurrency": 1, **fields}
    )


async def test_dialects_come_one_after_the_other():
    told = []
    async with scripted_upstream(*[TEXT_REPLY] * 4) as upstream:
        asked = plan(upstream.url, dialects=("hermes", "native"))
        with ResultFile(None, {}) as record:
            await run_plan(asked, record, told.append)

    assert ["hermes", "hermes", "native", "native"] == [result.dialect for result in told]
    assert [False, False, True, True] == ["tools" in request.body for request in upstream.requests]
    assert told == results_of(asked, record)


async def test_what_the_record_has_is_not_asked_again(tmp_path):
    path = tmp_path / "run.jsonl"
    async with scripted_upstream(*[TEXT_REPLY] * 3) as upstream:
        for limit in (1, 2, 3):
            asked = plan(upstream.url, limit=limit)
            with ResultFile(path, asked.terms(), resume=True) as record:
                await run_plan(asked, record, lambda result: None)

    assert 3 == len(upstream.requests) == len(record.results)


async def test_results_of_another_selection_stay_out_of_the_sum(tmp_path):
    async with scripted_upstream(*[TEXT_REPLY] * 4) as upstream:
        with ResultFile(None, {}) as record:
            await run_plan(plan(upstream.url), record, lambda result: None)
            await run_plan(plan(upstream.url, categories=("parallel",)), record, lambda result: None)

        assert {"parallel"} == {each.category for each in results_of(plan("", categories=("parallel",)), record)}


async def test_the_first_model_is_taken_where_none_is_named():
    async with scripted_upstream(model_list("first", "second")) as upstream:
        assert "first" == (await resolve_model(plan(upstream.url, model=""))).model
    assert "m" == (await resolve_model(plan("http://127.0.0.1:9"))).model


async def test_an_endpoint_without_models_needs_a_name():
    async with scripted_upstream(model_list()) as upstream:
        with pytest.raises(UpstreamError, match="--model"):
            await resolve_model(plan(upstream.url, model=""))
