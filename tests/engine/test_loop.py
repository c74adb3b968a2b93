"""The whole loop with a real engine and a trained model: tools in, call out, result in, answer out.

The model copies: it turns "call NAME with KEY=VALUE" into a call, and a result into "NAME returned RESULT".
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from fcshim.client import Client
from tests.engine.llama_server import LlamaServer

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tell the weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
COUNT = {
    "type": "function",
    "function": {
        "name": "count_files",
        "parameters": {"type": "object", "properties": {"folder": {"type": "string"}}, "required": ["folder"]},
    },
}
TOOLS: Any = [WEATHER, COUNT]
ONE_CALL = "call get_weather with city=Paris, days=3"
TWO_CALLS = "call get_weather with city=Paris, days=3 and then count_files with folder=music"


@pytest.fixture
async def sdk(proxy: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{proxy}/v1", api_key="none", max_retries=0) as client:
        yield client


async def ask(sdk: AsyncOpenAI, messages: list[Any], *, stream: bool) -> Any:
    """Return the finished choice that the SDK reads from a whole reply or accumulates from a stream."""
    options: Any = {"model": "tiny", "messages": messages, "tools": TOOLS, "temperature": 0, "max_tokens": 300}
    if not stream:
        return (await sdk.chat.completions.create(**options)).choices[0]
    async with sdk.chat.completions.stream(**options) as events:
        async for _ in events:
            pass
        return (await events.get_final_completion()).choices[0]


def calls(choice: Any) -> list[tuple[str, Any]]:
    return [(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or ()]


def said(choice: Any) -> dict[str, Any]:
    """Convert the SDK's message to a message of the next request, as an application does."""
    tool_calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in choice.message.tool_calls
    ]
    return {"role": "assistant", "content": choice.message.content, "tool_calls": tool_calls}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_comes_out_and_its_result_becomes_the_answer(sdk: AsyncOpenAI, stream: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": ONE_CALL}]
    first = await ask(sdk, messages, stream=stream)

    assert ("tool_calls", [("get_weather", {"city": "Paris", "days": 3})]) == (first.finish_reason, calls(first))
    assert not first.message.content

    result = {"role": "tool", "tool_call_id": first.message.tool_calls[0].id, "content": "21"}
    second = await ask(sdk, [*messages, said(first), result], stream=stream)

    assert ("stop", "get_weather returned 21", []) == (second.finish_reason, second.message.content, calls(second))


@pytest.mark.parametrize("stream", [False, True])
async def test_two_calls_come_out_in_order(sdk: AsyncOpenAI, stream: bool) -> None:
    choice = await ask(sdk, [{"role": "user", "content": TWO_CALLS}], stream=stream)

    assert [("get_weather", {"city": "Paris", "days": 3}), ("count_files", {"folder": "music"})] == calls(choice)
    assert 2 == len({call.id for call in choice.message.tool_calls})


async def test_an_answer_without_a_call_stays_text(sdk: AsyncOpenAI) -> None:
    choice = await ask(sdk, [{"role": "user", "content": "say hello world"}], stream=True)

    assert ("stop", "hello world", []) == (choice.finish_reason, choice.message.content, calls(choice))


async def test_a_call_that_the_token_limit_cuts_off_is_no_call(sdk: AsyncOpenAI) -> None:
    reply = await sdk.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": ONE_CALL}], tools=TOOLS, temperature=0, max_tokens=12
    )

    assert "length" == reply.choices[0].finish_reason
    assert not reply.choices[0].message.tool_calls


async def test_the_client_runs_python_functions_until_the_model_answers(trained_server: LlamaServer) -> None:
    executed = []

    def get_weather(city: str, days: int) -> str:
        """Tell the weather."""
        executed.append((city, days))
        return "21"

    async with Client(trained_server.url) as client:
        reply = await client.run(ONE_CALL, [get_weather], temperature=0, max_tokens=300)

    assert [("Paris", 3)] == executed
    assert "get_weather returned 21" == reply.text


async def test_the_server_tells_that_its_model_takes_no_pictures(trained_server: LlamaServer) -> None:
    async with Client(trained_server.url) as client:
        assert "the server says that this model takes only text" == await client.image_refusal()
