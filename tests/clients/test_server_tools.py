"""The providers' SDKs with a fcshim that runs tools itself: an agent for clients without tools."""

import json

import anthropic
import openai
import pytest

from fcshim.demo.serving import serve_model
from tests.mcp.server_programs import serve_over_http
from tests.server.mcp_proxy import ADD, mixed_calls, prompts, proxy_with_servers, stdio_server
from tests.server.proxy import running_proxy

STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
WEATHER = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
HI = [{"role": "user", "content": "How much?"}]


@pytest.fixture(scope="module")
def friendly():
    with serve_over_http("http") as endpoint:
        yield {"f": {"url": endpoint.url, "trust": "annotations"}}


async def message(sdk, *, stream, **fields):
    fields = {"model": "m", "max_tokens": 100, "messages": HI, **fields}
    if not stream:
        return await sdk.messages.create(**fields)
    async with sdk.messages.stream(**fields) as events:
        return await events.get_final_message()


@STREAMS
async def test_anthropic_s_client_goes_on_after_a_mixed_turn(stream, friendly, tmp_path):
    replies = (mixed_calls(), "3 and rain.")
    async with (
        proxy_with_servers(tmp_path, friendly, *replies) as (url, upstream),
        anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as sdk,
    ):
        first = await message(sdk, stream=stream, tools=[WEATHER])
        said, call = first.content
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "rain"}
        messages = [*HI, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        second = await message(sdk, stream=stream, tools=[WEATHER], messages=messages)

    assert ("tool_use", "See. ", "weather", {"city": "Oslo"}) == (first.stop_reason, said.text, call.name, call.input)
    assert ("end_turn", "3 and rain.") == (second.stop_reason, second.content[0].text)
    assert ADD in prompts(upstream)[1]


@STREAMS
async def test_anthropic_s_client_without_tools_gets_an_agent(stream, friendly, tmp_path):
    async with (
        proxy_with_servers(tmp_path, friendly, "See. " + ADD, "It is 3.") as (url, _),
        anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as sdk,
    ):
        reply = await message(sdk, stream=stream)

    assert ("end_turn", ["See. It is 3."]) == (reply.stop_reason, [block.text for block in reply.content])
    assert (20, 10) == (reply.usage.input_tokens, reply.usage.output_tokens)


async def test_the_responses_client_goes_on_by_the_id_of_its_last_response(friendly, tmp_path):
    async with (
        proxy_with_servers(tmp_path, friendly, "See. " + ADD, "It is 3.", "Yes.") as (url, upstream),
        openai.AsyncOpenAI(base_url=url + "/v1", api_key="x", max_retries=0) as sdk,
    ):
        first = await sdk.responses.create(model="m", input="How much?")
        second = await sdk.responses.create(model="m", input="Sure?", previous_response_id=first.id)

    assert ("See. It is 3.", "Yes.") == (first.output_text, second.output_text)
    assert ADD in prompts(upstream)[2]


async def test_the_trained_model_calls_a_server_s_tool_for_a_client_without_tools(tmp_path):
    """The demo's model and a real server: the answer holds what only the tool could know."""
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"calc": {**stdio_server("calc"), "trust": "annotations"}}}))
    async with (
        serve_model("numpy") as model,
        running_proxy(model.url, limit=60, mcp=str(file), pins=str(tmp_path / "pins.json")) as url,
        openai.AsyncOpenAI(base_url=url + "/v1", api_key="x", max_retries=0) as sdk,
    ):
        messages = [{"role": "user", "content": "call mcp__calc__add with first=19, second=23"}]
        reply = await sdk.chat.completions.create(model="fcshim-tiny", messages=messages)

    assert "mcp__calc__add returned 42" == reply.choices[0].message.content
