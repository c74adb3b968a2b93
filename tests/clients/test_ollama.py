"""The official Ollama client with a running fcshim in front of an upstream that supports text only."""

import asyncio
import contextlib

import ollama
import pytest

from fcshim.config import ModelOverrides
from fcshim.demo.serving import serve_model
from tests.scripted import ROLE, event, text_chunk
from tests.server.proxy import CALL, http_client, running_proxy
from tests.server.raw_upstream import fixed_reply, hang, raw_reply, raw_upstream, stream_texts, stream_then

MODELS = b'{"object":"list","data":[{"id":"m","object":"model","created":1700000000,"meta":{"n_ctx_train":4096}}]}'


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the one
        b: the other
    """
    return a + b


HI = [{"role": "user", "content": "What is 1 + 2?"}]


@contextlib.asynccontextmanager
async def talking(*plays, **settings):
    """Yield a client of a fcshim in front of an upstream that plays these scripts."""
    async with (
        raw_upstream(*plays) as upstream,
        running_proxy(upstream.url, **settings) as url,
        ollama.AsyncClient(url, trust_env=False) as sdk,
    ):
        yield sdk, upstream


async def collect(answer, parts):
    async for part in answer:
        parts.append(part)


def plain(request):
    """Return whether a request holds nothing that an endpoint without tools would refuse."""
    fields = request.json_body
    texts = [
        isinstance(message["content"], str) and {"role", "content"} == set(message) for message in fields["messages"]
    ]
    roles = [message["role"] for message in fields["messages"]]
    return all(texts) and {"system", "user", "assistant"} >= set(roles) and not {"tools", "tool_choice"} & set(fields)


async def test_a_streamed_call_is_executed_and_its_result_goes_back():
    async with (
        talking(stream_texts("Let me. ", CALL[:30], CALL[30:]), stream_texts("It is 3.")) as (sdk, upstream),
    ):
        messages = list(HI)
        parts = [part async for part in await sdk.chat("m", messages, tools=[add], stream=True)]
        calls = [call for part in parts for call in part.message.tool_calls or []]
        messages.append(ollama.Message(role="assistant", content="Let me. ", tool_calls=calls))
        result = add(**calls[0].function.arguments)
        messages.append({"role": "tool", "tool_name": "add", "content": str(result)})
        answer = await sdk.chat("m", messages, tools=[add])
    first, second = upstream.requests

    assert "Let me. " == "".join(part.message.content for part in parts)
    assert [("add", {"a": 1, "b": 2})] == [(call.function.name, call.function.arguments) for call in calls]
    assert (True, "stop", 10, 5) == (
        parts[-1].done,
        parts[-1].done_reason,
        parts[-1].prompt_eval_count,
        parts[-1].eval_count,
    )
    assert parts[-1].total_duration >= parts[-1].prompt_eval_duration > 0
    assert "It is 3." == answer.message.content
    assert plain(first)
    assert plain(second)
    assert "Add two numbers." in first.json_body["messages"][0]["content"]
    assert "3" in second.json_body["messages"][-1]["content"]


async def test_a_whole_reply_holds_its_calls():
    async with talking(stream_texts(CALL + "\n" + CALL)) as (sdk, upstream):
        answer = await sdk.chat("m", HI, tools=[add], options={"num_predict": 50, "temperature": 0})
    (request,) = upstream.requests

    assert [{"a": 1, "b": 2}] * 2 == [call.function.arguments for call in answer.message.tool_calls]
    assert (50, 0) == (request.json_body["max_tokens"], request.json_body["temperature"])
    assert request.json_body["stream"] is True


async def test_the_synchronous_client_gets_the_same():
    async with raw_upstream(stream_texts(CALL)) as upstream, running_proxy(upstream.url) as url:

        def talk():
            with ollama.Client(url, trust_env=False) as sdk:
                return list(sdk.chat("m", HI, tools=[add], stream=True))

        parts = await asyncio.to_thread(talk)

    assert [{"a": 1, "b": 2}] == [call.function.arguments for part in parts for call in part.message.tool_calls or []]


async def test_line_ends_of_unicode_do_not_break_the_client():
    text = "a\u2028b\u2029c\u0085d\n"
    async with talking(stream_texts(text)) as (sdk, _):
        parts = [part async for part in await sdk.chat("m", HI, stream=True)]

    assert text == "".join(part.message.content for part in parts)


@pytest.mark.parametrize("stream", [True, False])
async def test_generate_gives_the_text_of_one_prompt(stream):
    async with talking(stream_texts("Bl", "ue")) as (sdk, upstream):
        answer = await sdk.generate("m", "What colour?", system="Be brief.", stream=stream)
        parts = [part async for part in answer] if stream else [answer]
    (request,) = upstream.requests

    assert "Blue" == "".join(part.response for part in parts)
    assert parts[-1].done
    assert [("system", "Be brief."), ("user", "What colour?")] == [
        (message["role"], message["content"]) for message in request.json_body["messages"]
    ]


async def test_a_schema_reaches_the_upstream_in_its_own_words():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    async with talking(stream_texts('{"a":1}'), constrain="off") as (sdk, upstream):
        await sdk.chat("m", HI, format=schema)
    (request,) = upstream.requests

    assert schema == request.json_body["response_format"]["json_schema"]["schema"]


async def test_models_are_listed_and_have_tools():
    async with talking(fixed_reply(200, MODELS)) as (sdk, _):
        listed = await sdk.list()
        shown = await sdk.show("m")
        running = await sdk.ps()
        with pytest.raises(ollama.ResponseError, match="not found") as caught:
            await sdk.show("nope")

    assert ["m"] == [model.model for model in listed.models] == [model.model for model in running.models]
    assert ["completion", "tools"] == shown.capabilities
    assert 4096 == shown.modelinfo["llama.context_length"]
    assert 404 == caught.value.status_code


async def test_a_model_is_loaded_without_asking_anybody():
    async with talking(stream_texts("no")) as (sdk, upstream):
        loaded = await sdk.chat("m", [])
        unloaded = await sdk.generate("m", "", keep_alive=0)

    assert ("load", "unload") == (loaded.done_reason, unloaded.done_reason)
    assert not upstream.requests


async def test_an_error_before_the_first_word_has_its_status():
    body = b'{"error":{"message":"model \'x\' not found","code":404}}'
    async with talking(fixed_reply(404, body)) as (sdk, _):
        with pytest.raises(ollama.ResponseError, match="not found") as caught:
            await sdk.chat("x", HI, tools=[add])
        with pytest.raises(ollama.ResponseError, match="not found"):
            [part async for part in await sdk.chat("x", HI, stream=True)]

    assert 404 == caught.value.status_code


async def test_an_error_in_the_stream_raises_after_what_came():
    play = stream_then(ROLE, text_chunk("Once"), event(error={"message": "slot lost"}), then=raw_reply(b""))
    parts = []
    async with talking(play) as (sdk, _):
        answer = await sdk.chat("m", HI, tools=[add], stream=True)
        with pytest.raises(ollama.ResponseError, match="slot lost"):
            await collect(answer, parts)

    assert "Once" == "".join(part.message.content for part in parts)
    assert not any(part.done for part in parts)


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/api/chat", "GET", 405), ("/api/pull", "POST", 404), ("/api/generate", "POST", 400), ("/api/show", "POST", 400)],
)
async def test_errors_have_ollamas_form(path, method, status):
    async with (
        raw_upstream(fixed_reply(200, MODELS)) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as bare,
    ):
        response = await bare.request(method, path, json={"model": 7})

    assert status == response.status_code
    assert isinstance(response.json()["error"], str)


async def test_a_call_that_was_cut_off_is_no_call():
    async with talking(stream_texts(CALL[:60], reason="length")) as (sdk, _):
        streamed = [part async for part in await sdk.chat("m", HI, tools=[add], stream=True)]
        whole_ = await sdk.chat("m", HI, tools=[add])

    assert not any(part.message.tool_calls for part in [*streamed, whole_])
    assert "length" == streamed[-1].done_reason == whole_.done_reason


@pytest.mark.parametrize(
    ("method", "path", "accept", "status", "body"),
    [
        ("GET", "/", "*/*", 200, "Ollama is running"),
        ("HEAD", "/", "*/*", 200, ""),
        ("HEAD", "/api/tags", "*/*", 200, ""),
        ("HEAD", "/api/version", "*/*", 200, ""),
    ],
)
async def test_clients_find_out_whether_ollama_runs(method, path, accept, status, body):
    async with (
        raw_upstream(fixed_reply(200, MODELS)) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as bare,
    ):
        response = await bare.request(method, path, headers={"accept": accept})

    assert status == response.status_code
    assert body == response.text


async def test_the_default_tag_is_the_name_without_a_tag():
    async with talking(stream_texts("Hello")) as (sdk, upstream):
        await sdk.chat("m:latest", HI)

    assert "m" == upstream.requests[0].json_body["model"]


async def test_the_version_is_told():
    async with (
        raw_upstream(stream_texts("no")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as bare,
    ):
        response = await bare.get("/api/version")

    assert {"version"} == set(response.json())
    assert not upstream.requests


EMBEDDINGS = (
    b'{"object":"list","data":[{"index":1,"embedding":[2.50,0]},{"index":0,"embedding":[1e-3]}],'
    b'"usage":{"prompt_tokens":7,"total_tokens":7}}'
)


async def test_embeddings_are_asked_for_by_openais_api():
    async with talking(fixed_reply(200, EMBEDDINGS), models={"e": ModelOverrides(upstream_model="m")}) as (sdk, up):
        answer = await sdk.embed("e:latest", ["a", "b"], dimensions=2, truncate=True)
        nothing = await sdk.embed("e", [])
    (request,) = up.requests

    assert ([[0.001], [2.5, 0]], "e:latest", 7) == (answer.embeddings, answer.model, answer.prompt_eval_count)
    assert [] == nothing.embeddings
    assert "POST /v1/embeddings HTTP/1.1" == request.request_line
    assert {"model": "m", "input": ["a", "b"], "encoding_format": "float", "dimensions": 2} == request.json_body


async def test_the_older_endpoint_for_embeddings_has_one():
    one = b'{"data":[{"embedding":[0.5]}]}'
    async with talking(fixed_reply(200, one)) as (sdk, upstream):
        answer = await sdk.embeddings("m", "a")
        nothing = await sdk.embeddings("m", "")

    assert ([0.5], []) == (answer.embedding, nothing.embedding)
    assert ["a"] == upstream.requests[0].json_body["input"]


async def test_a_real_ollama_gets_requests_for_embeddings_as_they_are():
    body = b'{"model":"m","embeddings":[[1]]}'
    async with talking(fixed_reply(200, body), upstream_api="ollama") as (sdk, upstream):
        answer = await sdk.embed("m", "a", keep_alive="5m", options={"num_ctx": 8})
    (request,) = upstream.requests

    assert [[1]] == answer.embeddings
    assert "POST /api/embed HTTP/1.1" == request.request_line
    assert {"model": "m", "input": "a", "keep_alive": "5m", "options": {"num_ctx": 8}} == {
        name: value for name, value in request.json_body.items() if value is not None
    }


@pytest.mark.parametrize(
    ("reply", "settings", "fields", "status", "message"),
    [
        (fixed_reply(501, b'{"error":{"message":"start it with --embeddings"}}'), {}, {}, 502, "start it with"),
        (fixed_reply(200, b'{"data":[]}'), {}, {}, 502, "expected 1 embeddings from the upstream, got 0"),
        (fixed_reply(200, b"<html>"), {}, {}, 502, "the upstream's reply is not a list of embeddings"),
        (hang, {"upstream_api": "anthropic"}, {}, 404, "the upstream's API has no embeddings"),
        (hang, {}, {"input": [1]}, 400, "input: expected a string or an array of strings"),
        (hang, {}, {"model": 1}, 400, "model: expected a string"),
    ],
)
async def test_why_there_are_no_embeddings_is_told(reply, settings, fields, status, message):
    async with (
        raw_upstream(reply) as upstream,
        running_proxy(upstream.url, **settings) as url,
        http_client(url) as bare,
    ):
        response = await bare.post("/api/embed", json={"model": "m", "input": "a", **fields})

    assert status == response.status_code
    assert message in response.json()["error"]


@pytest.mark.parametrize("forwarded", [True, False])
async def test_the_clients_key_is_sent_with_embeddings_where_keys_are_forwarded(forwarded):
    async with (
        raw_upstream(fixed_reply(200, b'{"data":[{"embedding":[0]}]}')) as upstream,
        running_proxy(upstream.url, forward_client_key=forwarded) as url,
        http_client(url) as bare,
    ):
        await bare.post("/api/embed", json={"model": "m", "input": "a"}, headers={"x-api-key": "k"})

    assert ("Bearer k" if forwarded else None) == upstream.requests[0].headers.get("authorization")


LOADED = b'{"model":"m","created_at":"2026-11-20T10:00:00Z","message":{"role":"assistant","content":""},"done":true}'


async def test_a_real_ollama_is_asked_to_load_its_model():
    async with talking(fixed_reply(200, LOADED), upstream_api="ollama") as (sdk, upstream):
        loaded = await sdk.chat("m", [], keep_alive="5m")
    (request,) = upstream.requests

    assert loaded.done
    assert ("POST /api/chat HTTP/1.1", "5m") == (request.request_line, request.json_body["keep_alive"])


async def test_a_real_ollama_calls_tools_by_itself():
    call = b'{"function":{"name":"add","arguments":{"a":1,"b":2}}}'
    body = b'{"message":{"content":"","tool_calls":[' + call + b']},"done":false}\n{"done":true,"done_reason":"stop"}\n'
    async with talking(fixed_reply(200, body), upstream_api="ollama", tools="native") as (sdk, upstream):
        answer = await sdk.chat("m", HI, tools=[add], options={"num_ctx": 8192}, think=False)
    (request,) = upstream.requests

    assert [{"a": 1, "b": 2}] == [each.function.arguments for each in answer.message.tool_calls]
    assert ["add"] == [tool["function"]["name"] for tool in request.json_body["tools"]]
    assert ({"num_ctx": 8192}, False, True) == (
        request.json_body["options"],
        request.json_body["think"],
        request.json_body["stream"],
    )


def add_numbers(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@pytest.mark.engine
@pytest.mark.model_pages
@pytest.mark.parametrize("stream", [True, False])
async def test_a_real_model_is_called_and_answered(stream):
    asked = {"role": "user", "content": "call add_numbers with first=19, second=23"}
    async with (
        serve_model("numpy") as model,
        running_proxy(model.url) as url,
        ollama.AsyncClient(url, trust_env=False) as sdk,
    ):
        reply = await sdk.chat("m", [asked], tools=[add_numbers], stream=stream)
        messages = [part.message async for part in reply] if stream else [reply.message]
        (said_,) = [message for message in messages if message.tool_calls]
        result = {"role": "tool", "tool_name": "add_numbers", "content": "42"}
        answer = await sdk.chat("m", [asked, said_, result], tools=[add_numbers])

    assert {"first": 19, "second": 23} == said_.tool_calls[0].function.arguments
    assert "add_numbers returned 42" == answer.message.content
