"""Running cases against a scripted upstream."""

import asyncio
import itertools
from types import SimpleNamespace

import msgspec
import pytest

from fcshim.client import Client
from fcshim.errors import UpstreamError
from fcshim.evaluate import Case, ExpectedCall, evaluate, load_cases
from fcshim.messages import Tool
from tests.scripted import HANG, ROLE, Script, event, scripted_upstream, text_chunk, text_reply
from tests.server.raw_upstream import raw_upstream, stream_texts

TIMER = Tool("timer", "Start a countdown.", {"type": "object", "properties": {"minutes": {"type": "number"}}})
CALL = '<function_call>\n{"name": "timer", "arguments": {"minutes": 5}}\n</function_call>'
HANGING = Script((ROLE, HANG))
SERVER_ERROR = Script((b'{"error": {"message": "the model fell over"}}',), status=500)


def timers(count):
    return [
        Case(
            id=f"timer-{number}",
            category="simple",
            messages=({"role": "user", "content": "Five minutes!"},),
            tools=(TIMER,),
            expected=((ExpectedCall("timer", {"minutes": [5]}),),),
        )
        for number in range(count)
    ]


async def run(cases, *scripts, **options):
    """Run one case at a time, so that the scripts are played in the order of the cases."""
    async with scripted_upstream(*scripts) as upstream, Client(upstream.url, model="m") as client:
        return await evaluate(client, cases, **{"concurrency": 1, **options}), upstream


async def test_each_result_has_a_verdict_and_its_cost():
    (right, wrong), _ = await run(timers(2), text_reply(CALL), text_reply("Five ", "minutes it is."))

    assert ("right", "missing_call") == (right.verdict, wrong.verdict)
    assert [("timer", {"minutes": 5})] == [(call.name, call.arguments) for call in right.calls]
    assert "Five minutes it is." == wrong.text
    assert (10, 5) == (right.input_tokens, right.output_tokens)
    assert right.seconds > 0


async def test_requests_have_the_sampling_fields():
    case = timers(1)[0]
    _, upstream = await run([case], text_reply(CALL), sampling={"temperature": 0.5, "seed": 7})

    assert (0.5, 7) == (upstream.requests[0].body["temperature"], upstream.requests[0].body["seed"])
    assert "Five minutes!" in upstream.requests[0].body["messages"][-1]["content"]


async def test_a_case_may_require_a_call():
    case = msgspec.structs.replace(timers(1)[0], tool_choice="required")
    async with (
        scripted_upstream(text_reply(CALL)) as upstream,
        Client(upstream.url, model="m", tools="native") as client,
    ):
        await evaluate(client, [case])

    assert "required" == upstream.requests[0].body["tool_choice"]


async def test_results_are_reported_at_once_and_returned_in_order():
    reported = []
    results, _ = await run(timers(3), *[text_reply(CALL)] * 3, on_result=reported.append)

    assert ["timer-0", "timer-1", "timer-2"] == [result.id for result in results]
    assert reported == results


async def test_concurrency_limits_the_requests():
    running, most = 0, 0
    two = asyncio.Event()

    async def play(peer):
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 2:
            two.set()
        await two.wait()
        await asyncio.sleep(0.01)  # a third request would come now
        running -= 1
        await stream_texts(CALL)(peer)

    async with raw_upstream(play) as upstream, Client(upstream.url, model="m") as client:
        results = await evaluate(client, timers(4), concurrency=2)

    assert ["right"] * 4 == [result.verdict for result in results]
    assert 2 == most


async def test_a_cancelled_run_closes_its_requests():
    async with scripted_upstream(HANGING) as upstream, Client(upstream.url, model="m") as client:
        running = asyncio.create_task(evaluate(client, timers(1)))
        await asyncio.wait_for(upstream.hanging.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait_for(upstream.client_left.wait(), 60)


async def test_a_reply_is_cancelled_as_soon_as_its_verdict_is_certain():
    case = msgspec.structs.replace(timers(1)[0], expected=((),))
    start = Script((ROLE, text_chunk('<function_call>\n{"name": "timer", "arguments": {"min'), HANG))
    async with scripted_upstream(start) as upstream, Client(upstream.url, model="m") as client:
        (result,) = await evaluate(client, [case], stop_early=True)
        await asyncio.wait_for(upstream.client_left.wait(), 60)

    assert ("called_though_none_fits", 0) == (result.verdict, result.input_tokens)


async def test_a_reply_whose_verdict_is_open_to_its_end_is_read_to_its_end():
    (right, wrong), _ = await run(timers(2), text_reply(CALL), text_reply("No."), stop_early=True)

    assert ("right", 10, "missing_call", 10) == (right.verdict, right.input_tokens, wrong.verdict, wrong.input_tokens)


async def test_a_stream_that_fails_is_an_error_although_it_is_read_early():
    broken = Script((ROLE, text_chunk("Let me"), event(error={"message": "the model fell over"})))
    ((result,), _) = await run(timers(1), broken, stop_early=True)

    assert ("error", True) == (result.verdict, "the model fell over" in result.problem)


async def test_a_single_failure_costs_one_case():
    (failed, right), _ = await run(timers(2), SERVER_ERROR, text_reply(CALL))

    assert ("error", "right") == (failed.verdict, right.verdict)
    assert "the model fell over" in failed.problem


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_endpoint_is_retried(status, monkeypatch):
    """The seconds are those of the last attempt: the clock is read before and after each."""
    monkeypatch.setattr("fcshim.evaluate.runner.time", SimpleNamespace(perf_counter=itertools.count().__next__))
    busy = Script((b'{"error": {"message": "too many requests"}}',), status=status)
    ((result,), upstream) = await run(timers(1), busy, text_reply(CALL))

    assert ("right", 2) == (result.verdict, len(upstream.requests))
    assert 1 == result.seconds


async def test_a_reply_that_takes_too_long_is_an_error():
    ((result,), _) = await run(timers(1), HANGING, timeout=0.2)

    assert ("error", "no whole reply after 0.2 s") == (result.verdict, result.problem)


async def test_an_endpoint_that_always_fails_ends_the_run():
    reported = []
    with pytest.raises(UpstreamError, match=r"10 consecutive cases failed: .*fell over"):
        await run(timers(40), *[SERVER_ERROR] * 40, on_result=reported.append)

    assert 10 == len(reported)


async def test_prompts_beyond_the_context_do_not_end_the_run():
    too_long = Script((b'{"error": {"message": "the request exceeds the available context size"}}',), status=400)
    results, _ = await run(timers(15), *[too_long] * 15)

    assert ["error"] * 15 == [result.verdict for result in results]


async def test_without_cases_no_request_is_sent():
    async with Client("http://127.0.0.1:9", model="m") as client:
        assert [] == await evaluate(client, [])


async def test_cases_of_every_category_make_requests():
    cases = load_cases(limit=2)
    results, upstream = await run(cases, *[text_reply("I do not know.")] * len(cases))

    assert len(cases) == len(upstream.requests)
    assert {"right", "missing_call"} == {result.verdict for result in results}
