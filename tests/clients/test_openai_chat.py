"""The official client of Chat Completions with a running fcshim in front of an upstream that supports text only."""

import openai
import pytest

from tests.scripted import scripted_upstream, text_reply
from tests.server.proxy import running_proxy

CALL = '<function_call>\n{"name": "add", "arguments": {"a": 1, "b": [2, "x"]}}\n</function_call>'
HI = [{"role": "user", "content": "Hi"}]


def add(*, strict):
    parameters = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}
    return {"type": "function", "function": {"name": "add", "strict": strict, "parameters": parameters}}


async def stream(sdk):
    async with sdk.chat.completions.stream(model="m", messages=HI, tools=[add(strict=True)]) as events:
        return [event async for event in events]


@pytest.mark.parametrize("end", range(45, len(CALL), 4))
async def test_a_call_that_max_tokens_cuts_off_raises_what_the_sdk_has_for_it(end):
    script = text_reply(*CALL[:end], reason="length")
    async with (
        scripted_upstream(script) as upstream,
        running_proxy(upstream.url, constrain="off", max_retries=0) as url,
        openai.AsyncOpenAI(base_url=url + "/v1", api_key="x", max_retries=0) as sdk,
    ):
        with pytest.raises(openai.LengthFinishReasonError):
            await stream(sdk)


@pytest.mark.parametrize("end", range(45, len(CALL), 4))
async def test_the_bare_stream_ends_with_length_and_arguments_that_are_not_json(end):
    script = text_reply(*CALL[:end], reason="length")
    async with (
        scripted_upstream(script) as upstream,
        running_proxy(upstream.url, max_retries=0) as url,
        openai.AsyncOpenAI(base_url=url + "/v1", api_key="x", max_retries=0) as sdk,
    ):
        reply = await sdk.chat.completions.create(model="m", messages=HI, tools=[add(strict=False)], stream=True)
        chunks = [chunk async for chunk in reply]
        calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]

    assert "length" == chunks[-1].choices[0].finish_reason
    assert not calls or "".join(call.function.arguments for call in calls).endswith(("]", "}"))
