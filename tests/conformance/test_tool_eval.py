"""tool-eval-bench passes what a model does right as text: fcshim stands between them, and loses no point."""

import asyncio
import json

import pytest

from tests.conformance.environment import TOOL_EVAL
from tests.conformance.tool_eval import run_tool_eval
from tests.scripted import model_list, scripted_upstream, text_reply
from tests.server.proxy import running_proxy


def call(name: str, **arguments: object) -> str:
    return f"<function_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</function_call>"


WEATHER = call("get_weather", location="Berlin")
STEPS = {
    "TC-01": (WEATHER, "In Berlin it is 8 degrees and overcast."),
    "TC-09": (
        f"{call('get_weather', location='London')}\n{call('get_stock_price', ticker='MSFT')}",
        "London has 12 degrees, and MSFT stands at 412.78 dollars.",
    ),
    "TC-10": ("World War II ended in 1945.",),
}
"""The replies of a model that does a scenario right, one after the other: a tool, two at once, and none."""


@pytest.mark.skipif(not TOOL_EVAL.exists(), reason="python -m tests.conformance.environment")
@pytest.mark.parametrize("scenario", STEPS)
def test_a_scenario_that_the_model_does_right_as_text_passes(scenario):
    async def run():
        replies = [text_reply(reply) for reply in STEPS[scenario]]
        async with (
            scripted_upstream(*replies, listing=model_list("m")) as upstream,
            running_proxy(upstream.url, tools="prompt") as url,
        ):
            return await run_tool_eval(url, "m", scenarios=[scenario])

    scores, output = asyncio.run(run())

    assert scores, output
    assert [("pass", 2)] == [(result.status, result.points) for result in scores.scenario_results], output
