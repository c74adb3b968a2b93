"""Response formats and strict tools: what each backend is sent, and what the client gets."""

import pytest

from fcshim.events import Text, ToolCallChunk
from tests.constrained_upstream import CALL, GRAMMAR_REFUSED, make_client, owned_model_list
from tests.scripted import scripted_upstream, text_reply
from tests.server.proxy import CHAT, chat_body, http_client, running_proxy

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
REPLY = '{"city": "Zürich"}'
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ADD = {"type": "function", "function": {"name": "add", "parameters": PARAMETERS}}
STRICT = {"type": "function", "function": {"name": "add", "parameters": PARAMETERS, "strict": True}}
IN_JSON = '[{"name": "add", "arguments": {"a": 1}}]'
INVALID = '<function_call>\n{"name": "add", "arguments": {"b": 1}}\n</function_call>'


def fields(received) -> set[str]:
    return {"grammar", "response_format"} & set(received.body)


async def test_llama_server_is_given_a_grammar_and_the_reply_streams():
    pages = {"/v1/models": owned_model_list("llamacpp")}
    async with scripted_upstream(text_reply(*REPLY), pages=pages) as upstream, make_client(upstream) as client:
        events = [event async for event in client.stream("Hi", response_format=FORMAT)]

    texts = [event.text for event in events if isinstance(event, Text)]
    assert REPLY == "".join(texts)
    assert len(texts) > 3
    assert {"grammar"} == fields(upstream.requests[0])


@pytest.mark.parametrize("setting", ["vllm", "sglang", "ollama", "lmstudio", "generic", "off"])
async def test_other_backends_get_the_clients_format_unchanged(setting):
    async with scripted_upstream(text_reply(REPLY)) as upstream, make_client(upstream, constrain=setting) as client:
        reply = await client.complete("Hi", response_format=FORMAT)

    assert REPLY == reply.text
    assert FORMAT == upstream.requests[0].body["response_format"]


async def test_tool_choice_none_does_not_change_the_format():
    for setting, expected in [("llama-server", {"grammar"}), ("generic", {"response_format"})]:
        async with scripted_upstream(text_reply(REPLY)) as upstream, make_client(upstream, constrain=setting) as client:
            reply = await client.complete("Hi", [ADD], tool_choice="none", response_format=FORMAT)

        assert (REPLY, ()) == (reply.text, tuple(reply.tool_calls))
        assert expected == fields(upstream.requests[0])


@pytest.mark.parametrize(
    ("setting", "call"),
    [("llama-server", CALL), ("vllm", CALL), ("ollama", IN_JSON), ("generic", IN_JSON)],
)
async def test_with_tools_a_reply_is_the_document_or_a_call(setting, call):
    scripts = text_reply(REPLY), text_reply(call)
    async with scripted_upstream(*scripts) as upstream, make_client(upstream, constrain=setting) as client:
        told = await client.complete("Hi", [ADD], response_format=FORMAT)
        called = await client.complete("Hi", [ADD], response_format=FORMAT)

    assert (REPLY, 0) == (told.text, len(told.tool_calls))
    assert ("add", "tool_use") == (called.tool_calls[0].tool_call_name, called.stop_reason)
    assert {"grammar" if setting == "llama-server" else "response_format"} == fields(upstream.requests[0])
    assert FORMAT != upstream.requests[0].body.get("response_format")


async def test_a_required_call_drops_the_format():
    async with scripted_upstream(text_reply(CALL)) as upstream, make_client(upstream, constrain="generic") as client:
        await client.complete("Hi", [ADD], tool_choice="required", response_format=FORMAT)

    assert set() == fields(upstream.requests[0])


async def test_a_refused_grammar_is_replaced_by_the_clients_format():
    scripts = GRAMMAR_REFUSED, text_reply(REPLY), text_reply(REPLY)
    async with scripted_upstream(*scripts) as upstream, make_client(upstream, constrain="llama-server") as client:
        replies = [await client.complete("Hi", response_format=FORMAT) for _ in range(2)]

    assert [{"grammar"}, {"response_format"}, {"response_format"}] == [
        fields(received) for received in upstream.requests
    ]
    assert [REPLY, REPLY] == [reply.text for reply in replies]


# Through the proxy.


@pytest.mark.parametrize("stream", [False, True])
async def test_the_proxy_constrains_a_document_of_llama_server_and_relays_to_others(stream):
    body = chat_body(stream=stream, tools=False, response_format=FORMAT)
    for owner, expected in [("llamacpp", {"grammar"}), ("vllm", {"response_format"})]:
        scripts = owned_model_list(owner), text_reply(REPLY), text_reply(REPLY)
        async with (
            scripted_upstream(*scripts) as upstream,
            running_proxy(upstream.url) as url,
            http_client(url) as client,
        ):
            responses = [await client.post(CHAT, json=body) for _ in range(2)]

        assert [200, 200] == [response.status_code for response in responses]
        assert [expected, expected] == [fields(received) for received in upstream.requests if received.method == "POST"]
        assert "Z" in responses[0].text


@pytest.mark.parametrize("stream", [False, True])
async def test_the_proxy_asks_again_if_the_grammar_is_refused(stream):
    scripts = owned_model_list("llamacpp"), GRAMMAR_REFUSED, text_reply(REPLY), text_reply(REPLY)
    async with scripted_upstream(*scripts) as upstream, running_proxy(upstream.url) as url, http_client(url) as client:
        body = chat_body(stream=stream, tools=False, response_format=FORMAT)
        responses = [await client.post(CHAT, json=body) for _ in range(2)]

    assert [200, 200] == [response.status_code for response in responses]
    assert [{"grammar"}, {"response_format"}, {"response_format"}] == [
        fields(received) for received in upstream.requests[1:]
    ]


async def test_without_a_format_the_backend_is_not_detected():
    async with (
        scripted_upstream(text_reply("Hi")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(tools=False))

    assert ["POST"] == [received.method for received in upstream.requests]


async def test_a_request_for_logprobs_is_relayed():
    async with (
        scripted_upstream(text_reply(REPLY)) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(tools=False, response_format=FORMAT, logprobs=True))

    assert [{"response_format"}] == [fields(received) for received in upstream.requests]


async def test_the_format_of_another_api_is_enforced():
    own = {"output_config": {"format": {"type": "json_schema", "schema": CITY}}}
    body = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}], **own}
    scripts = owned_model_list("llamacpp"), text_reply(REPLY)
    async with scripted_upstream(*scripts) as upstream, running_proxy(upstream.url) as url, http_client(url) as client:
        response = await client.post("/v1/messages", json=body)

    assert REPLY == response.json()["content"][0]["text"]
    assert {"grammar"} == fields(upstream.requests[1])


# Strict tools.


async def test_a_strict_tool_is_constrained_and_streams_if_the_backend_accepts_grammars():
    async with (
        scripted_upstream(text_reply(*CALL)) as upstream,
        make_client(upstream, constrain="llama-server") as client,
    ):
        events = [event async for event in client.stream("Hi", [STRICT])]

    assert {"grammar"} == fields(upstream.requests[0])
    assert len([event for event in events if isinstance(event, ToolCallChunk)]) > 1


async def test_a_strict_tool_is_validated_without_a_constraint():
    for tool, expected in [(STRICT, "invalid"), (ADD, None)]:
        async with scripted_upstream(text_reply(INVALID)) as upstream, make_client(upstream, constrain="off") as client:
            reply = await client.complete("Hi", [tool])

        error = reply.tool_calls[0].error
        assert expected == (error and error.kind)


async def test_a_strict_call_in_another_dialect_is_validated():
    other = INVALID.replace("function_call", "tool_call")
    async with (
        scripted_upstream(text_reply(other)) as upstream,
        make_client(upstream, constrain="llama-server") as client,
    ):
        reply = await client.complete("Hi", [STRICT])

    assert reply.tool_calls[0].error is not None
