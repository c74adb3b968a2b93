"""The official Google Gen AI SDK with a running fcshim in front of an endpoint that supports text only."""

import asyncio
import json

import pytest
from google import genai
from google.genai import errors, types

from fcshim.config import Secret
from fcshim.demo.serving import serve_model, serve_proxy
from tests.clients.text_only import check_text_only
from tests.scripted import CUT, ROLE, Script, model_list, scripted_upstream, text_chunk, text_reply
from tests.server.proxy import http_client, running_proxy
from tests.server.raw_upstream import fixed_reply as answer
from tests.server.raw_upstream import raw_upstream

pytestmark = [
    # with aiohttp installed, the SDK causes warnings of aiohttp
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]

ADD = {
    "name": "add",
    "description": "Add two numbers",
    "parameters": {
        "type": "OBJECT",
        "properties": {"a": {"type": "INTEGER"}, "b": {"type": "INTEGER", "nullable": True}},
        "required": ["a", "b"],
    },
}
PING = {"name": "ping"}
CALL = '<function_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</function_call>'
PINGED = '<function_call>\n{"name": "ping", "arguments": {}}\n</function_call>'


def sdk(url: str, *, key: str = "none", version: str | None = None) -> genai.Client:
    options = types.HttpOptions(base_url=url, api_version=version, retry_options=types.HttpRetryOptions(attempts=1))
    return genai.Client(api_key=key, http_options=options)


def config(**fields) -> types.GenerateContentConfig:
    tools = fields.pop("declarations", [ADD])
    return types.GenerateContentConfig(**{"tools": [{"function_declarations": tools}] if tools else None, **fields})


async def whole(url: str, contents="Hi", **fields) -> types.GenerateContentResponse:
    async with sdk(url).aio as client:
        return await client.models.generate_content(model="m", contents=contents, config=config(**fields))


async def chunks(url: str, contents="Hi", **fields) -> list[types.GenerateContentResponse]:
    async with sdk(url).aio as client:
        stream = await client.models.generate_content_stream(model="m", contents=contents, config=config(**fields))
        return [chunk async for chunk in stream]


def parts(replies: list[types.GenerateContentResponse]) -> list[types.Part]:
    return [part for reply in replies for candidate in reply.candidates for part in candidate.content.parts]


def calls(replies: list[types.GenerateContentResponse]) -> list[tuple[str, dict]]:
    return [(part.function_call.name, part.function_call.args) for part in parts(replies) if part.function_call]


def text(replies: list[types.GenerateContentResponse]) -> str:
    return "".join(part.text or "" for part in parts(replies))


def cut(text: str, size: int = 5) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


async def both(url: str, **fields) -> list[list[types.GenerateContentResponse]]:
    """Send the request twice: for a whole reply and for a stream."""
    return [[await whole(url, **fields)], await chunks(url, **fields)]


async def test_text_and_a_call():
    script = text_reply(*cut("Let me see. " + CALL))
    async with scripted_upstream(script, script) as upstream, running_proxy(upstream.url) as url:
        answers = await both(url, system_instruction="Be brief.", max_output_tokens=50)
        bodies = check_text_only(upstream)

    for replies in answers:
        last = replies[-1]

        assert "Let me see. " == text(replies)
        assert [("add", {"a": 1, "b": 2})] == calls(replies)
        assert all(part.function_call.id for part in parts(replies) if part.function_call)
        assert types.FinishReason.STOP == last.candidates[0].finish_reason
        assert (10, 5, 15) == (
            last.usage_metadata.prompt_token_count,
            last.usage_metadata.candidates_token_count,
            last.usage_metadata.total_token_count,
        )
    for body in bodies:
        assert 50 == body["max_tokens"]
        assert body["messages"][0]["content"].startswith("Be brief.")
        assert "b: number | null" in body["messages"][0]["content"]


async def test_parallel_calls_and_one_without_arguments():
    script = text_reply(*cut(CALL + "\n" + PINGED))
    async with scripted_upstream(script, script) as upstream, running_proxy(upstream.url) as url:
        answers = await both(url, declarations=[ADD, PING])

    for replies in answers:
        assert [("add", {"a": 1, "b": 2}), ("ping", {})] == calls(replies)


async def test_a_forced_function_is_asked_for_and_a_forbidden_one_is_not_offered():
    def calling(mode, *names):
        return {"function_calling_config": {"mode": mode, "allowed_function_names": list(names) or None}}

    once = {"constrain": "off", "max_retries": 0}
    async with scripted_upstream(*[text_reply("No.")] * 3) as upstream, running_proxy(upstream.url, **once) as url:
        await whole(url, declarations=[ADD, PING], tool_config=calling("ANY", "add"))
        await whole(url, declarations=[ADD, PING], tool_config=calling("VALIDATED"))
        await whole(url, declarations=[ADD, PING], tool_config=calling("NONE"))
        forced, validated, forbidden = (json.dumps(body) for body in check_text_only(upstream))

    assert "add" in forced
    assert forced != validated
    assert "ping" in validated
    assert "add" not in forbidden


async def test_a_chat_replays_calls_and_results():
    async with (
        scripted_upstream(text_reply(*cut(CALL)), text_reply("Three."), text_reply("Bye.")) as upstream,
        running_proxy(upstream.url) as url,
        sdk(url).aio as client,
    ):
        chat = client.chats.create(model="m", config=config())
        first = await chat.send_message("Hi")
        call = first.function_calls[0]
        result = types.Part(function_response=types.FunctionResponse(id=call.id, name="add", response={"result": 3}))
        second = [chunk async for chunk in await chat.send_message_stream(result)]
        third = await chat.send_message("Thanks")
        bodies = check_text_only(upstream)

    assert "Three." == text(second)
    assert "Bye." == third.text
    assert ["system", "user", "assistant", "user", "assistant", "user"] == [
        message["role"] for message in bodies[-1]["messages"]
    ]
    assert '"name": "add"' in bodies[-1]["messages"][2]["content"]
    assert "\n3\n" in bodies[-1]["messages"][3]["content"]


async def test_results_with_errors_and_images_go_back_as_text_turns():
    contents = [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {
            "role": "model",
            "parts": [
                {"function_call": {"name": "add", "args": {"a": 1, "b": 2}}, "thought_signature": b"x"},
                {"function_call": {"name": "add", "args": {"a": 1}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"function_response": {"name": "add", "response": {"output": "three"}}},
                {"function_response": {"name": "add", "response": {"error": "b is missing"}}},
                {"inline_data": {"mime_type": "image/png", "data": b"\0"}},
                {"text": "And now?"},
            ],
        },
    ]
    async with (
        scripted_upstream(text_reply("Three.")) as upstream,
        running_proxy(upstream.url, profile="text-only") as url,
    ):
        reply = await whole(url, contents)
        (body,) = check_text_only(upstream)

    results = body["messages"][-1]["content"]

    assert "Three." == reply.text
    assert results.index("three") < results.index("b is missing") < results.index("image") < results.index("And now?")


async def test_functions_of_the_program_are_called_by_the_sdk():
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def ask(url: str) -> str:
        with sdk(url) as client:
            return client.models.generate_content(model="m", contents="Hi", config={"tools": [add]}).text

    async with (
        scripted_upstream(text_reply(CALL), text_reply("Three.")) as upstream,
        running_proxy(upstream.url) as url,
    ):
        answer = await asyncio.to_thread(ask, url)
        _, second = check_text_only(upstream)

    assert "Three." == answer
    assert "\n3\n" in second["messages"][-1]["content"]


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1beta1", "v1alpha"])
async def test_every_version_is_served(version):
    async with (
        scripted_upstream(text_reply("Hel", "lo")) as upstream,
        running_proxy(upstream.url) as url,
        sdk(url, version=version).aio as client,
    ):
        assert "Hello" == (await client.models.generate_content(model="a/b:c", contents="Hi")).text
        assert "a/b:c" == upstream.requests[0].body["model"]


async def test_an_address_without_a_version_is_served_too():
    body = {"contents": [{"parts": [{"text": "Hi"}]}]}
    async with (
        scripted_upstream(text_reply("Hello")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        reply = (await client.post("/models/m:generateContent", json=body)).json()

    assert "Hello" == reply["candidates"][0]["content"]["parts"][0]["text"]


async def test_thoughts_are_shown_to_those_who_ask_for_them():
    thinks = b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}\n\n'
    script = Script((ROLE, thinks, *text_reply("Hello").pieces))
    async with scripted_upstream(*[script] * 4) as upstream, running_proxy(upstream.url) as url:
        plain = await both(url)
        shown = await both(url, thinking_config={"include_thoughts": True})

    for replies in plain:
        assert not any(part.thought for part in parts(replies))
    for replies in shown:
        assert ["hm"] == [part.text for part in parts(replies) if part.thought]


async def test_structured_output_reaches_the_upstream():
    async with (
        scripted_upstream(text_reply('{"a":1}')) as upstream,
        running_proxy(upstream.url, constrain="off") as url,
    ):
        schema = {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}
        reply = await whole(url, declarations=[], response_mime_type="application/json", response_schema=schema)

    form = upstream.requests[0].body["response_format"]["json_schema"]

    assert {"a": 1} == reply.parsed
    assert {"type": "object", "properties": {"a": {"type": "integer"}}} == form["schema"]


async def test_a_call_that_is_cut_off_never_shows():
    script = text_reply(*cut('Well. <function_call>\n{"name": "add", "arguments": {"a": 1, "b'), reason="length")
    async with scripted_upstream(script, script) as upstream, running_proxy(upstream.url, constrain="off") as url:
        answers = await both(url)

    for replies in answers:
        assert "Well. " == text(replies)
        assert [] == calls(replies)
        assert types.FinishReason.MAX_TOKENS == replies[-1].candidates[0].finish_reason


async def test_a_stream_that_breaks_off_is_an_error():
    script = Script((ROLE, text_chunk("Hel"), CUT))
    async with scripted_upstream(script) as upstream, running_proxy(upstream.url) as url:
        with pytest.raises(errors.ServerError) as caught:
            await chunks(url)

    assert "INTERNAL" == caught.value.status


async def test_errors_before_the_reply_have_their_status():
    missing = Script((b'{"error":{"message":"no such model","code":404}}',), status=404)
    busy = Script((b'{"error":{"message":"slow down"}}',), status=429)
    async with scripted_upstream(missing, busy) as upstream, running_proxy(upstream.url) as url:
        caught = []
        for ask, contents in ((whole, "Hi"), (chunks, "Hi"), (whole, [{"role": "nobody", "parts": [{"text": "x"}]}])):
            with pytest.raises(errors.ClientError) as each:
                await ask(url, contents)
            caught.append((each.value.code, each.value.status))

    assert [(404, "NOT_FOUND"), (429, "RESOURCE_EXHAUSTED"), (400, "INVALID_ARGUMENT")] == caught


async def test_the_key_is_taken_from_the_header_and_from_the_query():
    body = {"contents": [{"parts": [{"text": "Hi"}]}]}
    path = "/v1beta/models/m:generateContent"
    async with (
        scripted_upstream(text_reply("a"), text_reply("b")) as upstream,
        running_proxy(upstream.url, api_keys=(Secret("secret"),)) as url,
        http_client(url) as client,
    ):
        async with sdk(url, key="secret").aio as good:
            await good.models.generate_content(model="m", contents="Hi")
        answers = [await client.post(path, json=body, params={"key": key}) for key in ("secret", "wrong")]

    assert [200, 401] == [answer.status_code for answer in answers]
    assert "UNAUTHENTICATED" == answers[1].json()["error"]["status"]
    assert not any("secret" in json.dumps([asked.path, asked.headers]) for asked in upstream.requests)


async def test_without_sse_a_stream_is_one_json_array():
    body = {"contents": [{"parts": [{"text": "Hi"}]}], "tools": [{"functionDeclarations": [ADD]}]}
    broken = Script((ROLE, text_chunk("Hel"), CUT))
    async with (
        scripted_upstream(text_reply(*cut("Well. " + CALL)), broken) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        good, bad = [await client.post("/v1beta/models/m:streamGenerateContent", json=body) for _ in range(2)]

    assert "application/json; charset=UTF-8" == good.headers["content-type"]
    assert "STOP" == good.json()[-1]["candidates"][0]["finishReason"]
    assert ["error"] == list(bad.json()[-1])


async def test_tokens_are_counted():
    exact = Script((b'{"input_tokens":12}',))
    async with scripted_upstream(exact) as upstream, running_proxy(upstream.url) as url, sdk(url).aio as client:
        assert 12 == (await client.models.count_tokens(model="m", contents="Hi")).total_tokens


async def test_models_are_listed_in_the_clients_form():
    async with (
        scripted_upstream(model_list("one", "two/b"), model_list("one", "two/b")) as upstream,
        running_proxy(upstream.url) as url,
        sdk(url).aio as client,
    ):
        assert ["models/one", "models/two/b"] == [model.name async for model in await client.models.list()]
        assert "models/two/b" == (await client.models.get(model="two/b")).name


async def test_empty_lines_in_a_silent_stream_harm_nobody():
    waits = Script((b": waiting\n\n", *text_reply("Hello").pieces))
    async with scripted_upstream(waits) as upstream, running_proxy(upstream.url, first_ping=0.001, ping=0.001) as url:
        assert "Hello" == text(await chunks(url))


async def test_an_error_after_an_empty_line_is_told_in_the_stream():
    async with raw_upstream(late_refusal) as upstream, running_proxy(upstream.url, first_ping=0.01) as url:
        with pytest.raises(errors.ServerError, match="out of memory"):
            await chunks(url)


async def late_refusal(peer):
    await asyncio.sleep(0.3)
    await answer(500, b'{"error":{"message":"out of memory"}}')(peer)


@pytest.mark.engine
@pytest.mark.model_pages
async def test_a_real_model_is_called_and_answered():
    tool = {
        "name": "add_numbers",
        "parameters_json_schema": {"type": "object", "properties": {"first": {}, "second": {}}},
    }
    asked = types.Content(role="user", parts=[types.Part(text="call add_numbers with first=19, second=23")])
    async with serve_model("numpy") as model, serve_proxy(model.url) as url:
        replies = await chunks(url, [asked], declarations=[tool])
        (call,) = [part.function_call for part in parts(replies) if part.function_call]
        turn = types.Content(role="model", parts=[part for part in parts(replies) if part.function_call])
        response = types.FunctionResponse(id=call.id, name=call.name, response={"output": 42})
        result = types.Content(role="user", parts=[types.Part(function_response=response)])
        answer = await whole(url, [asked, turn, result], declarations=[tool])

    assert {"first": 19, "second": 23} == call.args
    assert "add_numbers returned 42" == answer.text
