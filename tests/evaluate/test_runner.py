"""Asking the cases, of an upstream with written answers."""

import asyncio

import msgspec
import pytest

from fcshim.client import Client
from fcshim.errors import UpstreamError
from fcshim.evaluate import Case, ExpectedCall, evaluate, load_cases
from fcshim.messages import Tool
from tests.scripted import HANG, ROLE, Script, scripted_upstream, text_reply

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
    """Ask one after the other, so that the scripts are played in the order of the cases."""
    async with scripted_upstream(*scripts) as upstream, Client(upstream.url, model="m") as client:
        return await evaluate(client, cases, **{"concurrency": 1, **options}), upstream


async def test_each_case_gets_a_verdict_and_what_it_cost():
    (right, wrong), _ = await run(timers(2), text_reply(CALL), text_reply("Five ", "minutes it is."))

    assert ("right", "missing_call") == (right.verdict, wrong.verdict)
    assert [("timer", {"minutes": 5})] == [(call.name, call.arguments) for call in right.calls]
    assert "Five minutes it is." == wrong.text
    assert (10, 5) == (right.input_tokens, right.output_tokens)
    assert right.seconds > 0


async def test_replies_are_asked_for_with_the_sampling():
    case = timers(1)[0]
    _, upstream = await run([case], text_reply(CALL), sampling={"temperature": 0.5, "seed": 7})

    assert (0.5, 7) == (upstream.requests[0].body["temperature"], upstream.requests[0].body["seed"])
    assert "Five minutes!" in upstream.requests[0].body["messages"][-1]["content"]


async def test_a_case_may_demand_its_call():
    case = msgspec.structs.replace(timers(1)[0], tool_choice="required")
    async with (
        scripted_upstream(text_reply(CALL)) as upstream,
        Client(upstream.url, model="m", tools="native") as client,
    ):
        await evaluate(client, [case])

    assert "required" == upstream.requests[0].body["tool_choice"]


async def test_results_come_as_soon_as_they_are_there_and_leave_in_order():
    told = []
    results, _ = await run(timers(3), *[text_reply(CALL)] * 3, on_result=told.append)

    assert ["timer-0", "timer-1", "timer-2"] == [result.id for result in results]
    assert told == results


async def test_no_more_are_asked_at_once_than_is_said():
    async with scripted_upstream(*[HANGING] * 4) as upstream, Client(upstream.url, model="m") as client:
        running = asyncio.create_task(evaluate(client, timers(4), concurrency=2, timeout=0.5))
        await asyncio.wait_for(upstream.hanging.wait(), 5)
        await asyncio.sleep(0.1)

        assert 2 == len(upstream.requests)

        assert 4 == len(await running)
        assert 4 == len(upstream.requests)


async def test_a_run_that_is_ended_ends_its_requests():
    async with scripted_upstream(HANGING) as upstream, Client(upstream.url, model="m") as client:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(evaluate(client, timers(1)), 0.5)
        await asyncio.wait_for(upstream.client_left.wait(), 5)


async def test_an_endpoint_that_fails_once_costs_one_case():
    (failed, right), _ = await run(timers(2), SERVER_ERROR, text_reply(CALL))

    assert ("error", "right") == (failed.verdict, right.verdict)
    assert "the model fell over" in failed.problem


@pytest.mark.parametrize("status", [429, 503])
async def test_an_endpoint_that_is_busy_is_asked_again(status):
    busy = Script((b'{"error": {"message": "too many requests"}}',), status=status)
    ((result,), upstream) = await run(timers(1), busy, text_reply(CALL))

    assert ("right", 2) == (result.verdict, len(upstream.requests))
    assert result.seconds < 1


async def test_a_reply_that_takes_too_long_is_an_error():
    ((result,), _) = await run(timers(1), HANGING, timeout=0.2)

    assert ("error", "no whole reply after 0.2 s") == (result.verdict, result.problem)


async def test_an_endpoint_that_always_fails_ends_the_run():
    told = []
    with pytest.raises(UpstreamError, match=r"10 cases one after the other failed: .*fell over"):
        await run(timers(40), *[SERVER_ERROR] * 40, on_result=told.append)

    assert 10 == len(told)


async def test_prompts_that_are_too_long_do_not_end_the_run():
    too_long = Script((b'{"error": {"message": "the request exceeds the available context size"}}',), status=400)
    results, _ = await run(timers(15), *[too_long] * 15)

    assert ["error"] * 15 == [result.verdict for result in results]


async def test_no_cases_need_no_endpoint():
    async with Client("http://127.0.0.1:9", model="m") as client:
        assert [] == await evaluate(client, [])


async def test_every_case_of_the_suite_makes_a_request():
    cases = load_cases(limit=2)
    results, upstream = await run(cases, *[text_reply("I do not know.")] * len(cases))

    assert len(cases) == len(upstream.requests)
    assert {"right", "missing_call"} == {result.verdict for result in results}
