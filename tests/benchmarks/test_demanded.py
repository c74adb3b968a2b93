"""Demanded calls: only a valid call in the first attempt counts, and every call after it is counted."""

import pytest

from benchmarks.models.demanded import demanded_line, run_demanded
from fcshim.evaluate.bfcl import BfclCase
from fcshim.evaluate.case import ExpectedCall
from fcshim.messages import Tool
from tests.scripted import model_list, scripted_upstream, text_reply

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CASE = BfclCase(
    id="a",
    category="multiple",
    line=1,
    messages=({"role": "user", "content": "The weather in Oslo?"},),
    tools=(Tool("get_weather", "", SCHEMA), Tool("get_time", "", SCHEMA)),
    expected=((ExpectedCall("get_weather", {"city": ["Oslo"]}),),),
    schemas={"get_weather": SCHEMA, "get_time": SCHEMA},
)


def call(name, arguments):
    return f'<function_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</function_call>\n'


OSLO, TIME, EMPTY = (
    call("get_weather", '{"city": "Oslo"}'),
    call("get_time", '{"city": "Oslo"}'),
    call("get_time", "{}"),
)


async def demanded(*replies):
    """Return the results for an endpoint that answers all requests with one text, or with these texts in order."""
    texts = iter(replies)
    scripts = (lambda _: text_reply(next(texts))) if len(replies) > 1 else (lambda _: text_reply(replies[0]))
    async with scripted_upstream(respond=scripts, listing=model_list("m")) as upstream:
        return [result async for result in run_demanded(upstream.url, [CASE])], upstream


async def test_each_case_demands_any_call_and_one_call():
    results, upstream = await demanded(OSLO)

    assert ["any", "get_weather"] == [each.demanded for each in results]
    assert "2 demanded calls: 2 valid, 0 calls beyond them, 2 as expected" == demanded_line(results)
    assert {0} == {asked.body.get("temperature") for asked in upstream.requests[1:]}


@pytest.mark.parametrize(
    ("text", "valid", "beyond"),
    [
        (TIME, [True, False], [0, 0]),  # the other tool
        (OSLO + OSLO, [True, True], [1, 1]),
        (EMPTY, [False, False], [0, 0]),
        ("Sunny.", [False, False], [0, 0]),
    ],
)
async def test_an_invalid_call_and_calls_beyond_it_are_told_apart(text, valid, beyond):
    results, _ = await demanded(text)

    assert (valid, beyond) == ([each.valid for each in results], [each.beyond for each in results])


async def test_a_call_of_a_retry_does_not_count():
    (first, second), _ = await demanded("Hi.", "Sunny.", OSLO, OSLO)

    assert (False, True, 2) == (first.valid, first.right, len(first.raw))
    assert second.valid
