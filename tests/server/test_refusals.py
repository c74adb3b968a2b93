"""Endpoints that refuse a part of the request: it is left out once they have said so, and from then on."""

import json

import pytest

from fcshim.codecs.upstreams import UPSTREAMS
from tests.scripted import Script, event, llama_server_with_tools, scripted_upstream, text_reply
from tests.server.proxy import CALL, CHAT, chat_body, http_client, running_proxy
from tests.server.test_api_pairs import reply_script
from tests.server.test_native import with_tools
from tests.test_client_apis import native_call

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
LOOK = [{"role": "user", "content": [{"type": "text", "text": "Look"}, IMAGE]}]
SYSTEM = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
SHOWN = "Look\n[An image (image/png) was sent here. It cannot be shown: this model takes only text.]"
NO_SYSTEM = "System role not supported"


def refusal(message, status=400):
    return Script((json.dumps({"error": {"message": message}}).encode(),), status=status)


NO_IMAGES = refusal("image input is not supported - hint: you may need to provide the mmproj", 500)


async def answers(upstream, *bodies, path=CHAT, **settings):
    async with running_proxy(upstream.url, **settings) as url, http_client(url) as client:
        return [await client.post(path, json=body) for body in bodies]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("tools", [True, False])
async def test_an_image_is_left_out_once_it_was_refused_and_from_then_on(tools, stream, caplog):
    body = chat_body(tools=tools, stream=stream, messages=LOOK)
    async with scripted_upstream(NO_IMAGES, text_reply("So."), text_reply("Yes.")) as upstream:
        replies = await answers(upstream, body, body)

    texts = [request.body["messages"][-1]["content"] for request in upstream.requests]

    assert [200, 200] == [reply.status_code for reply in replies]
    assert ["So.", "Yes."] == [text for text, reply in zip(["So.", "Yes."], replies, strict=True) if text in reply.text]
    assert IMAGE in texts[0]
    assert [SHOWN, SHOWN] == texts[1:]
    assert "left out for an hour: images" in caplog.text


async def test_other_requests_of_that_model_are_relayed_as_before():
    plain = Script((b'{"choices": [], "of_the_future": 1}',))
    async with scripted_upstream(NO_IMAGES, text_reply("So."), plain) as upstream:
        bodies = (chat_body(tools=False, messages=LOOK), chat_body(tools=False, of_the_future=1))
        _, reply = await answers(upstream, *bodies)

    assert {"choices": [], "of_the_future": 1} == reply.json()
    assert 1 == upstream.requests[2].body["of_the_future"]


async def test_another_model_is_asked_with_the_image():
    async with scripted_upstream(NO_IMAGES, text_reply("a"), text_reply("b")) as upstream:
        await answers(upstream, *(chat_body(messages=LOOK, model=name) for name in ("one", "two")))

    assert [True, False, True] == ["image_url" in str(each.body["messages"]) for each in upstream.requests]


@pytest.mark.parametrize("tools", [True, False])
async def test_a_refused_system_role_opens_the_users_turn(tools):
    body = chat_body(tools=tools, messages=SYSTEM)
    async with scripted_upstream(refusal(NO_SYSTEM, 500), text_reply("a"), text_reply("b")) as upstream:
        await answers(upstream, body, body)

    assert [["system", "user"], ["user"], ["user"]] == [
        [message["role"] for message in request.body["messages"]] for request in upstream.requests
    ]
    assert "Be kind." in upstream.requests[1].body["messages"][0]["content"]
    assert upstream.requests[1].body["messages"][0]["content"].endswith("\n\nHi")


@pytest.mark.parametrize("tools", ["prompt", "native"])
@pytest.mark.parametrize("offered", [True, False])
async def test_refused_stop_sequences_are_searched_here(tools, offered):
    message = "Unsupported parameter: 'stop' is not supported with this model."
    body = chat_body(tools=offered, stop=["END"], stream=False)
    scripts = (
        (text_reply("One EN", "D two"),)
        if offered and tools == "prompt"
        else (refusal(message), text_reply("One EN", "D two"))
    )
    async with scripted_upstream(*scripts) as upstream:
        (reply,) = await answers(upstream, body, tools=tools)

    choice = reply.json()["choices"][0]

    assert ("One ", "stop") == (choice["message"]["content"], choice["finish_reason"])
    assert "stop" not in upstream.requests[-1].body


async def test_several_parts_are_refused_one_after_the_other():
    body = chat_body(messages=[SYSTEM[0], *LOOK], tools=False)
    async with scripted_upstream(NO_IMAGES, refusal(NO_SYSTEM, 500), text_reply("So."), text_reply("Yes.")) as upstream:
        replies = await answers(upstream, body, body)

    assert [200, 200] == [reply.status_code for reply in replies]
    assert [{"role": "user", "content": f"Be kind.\n\n{SHOWN}"}] == upstream.requests[2].body["messages"]
    assert upstream.requests[2].body["messages"] == upstream.requests[3].body["messages"]


async def test_what_does_not_help_is_not_remembered():
    again = refusal("Unexpected role")
    body = chat_body(messages=SYSTEM, tools=False, stream=False)
    ok = Script((b'{"choices": []}',))
    async with scripted_upstream(again, again, ok) as upstream:
        first, second = await answers(upstream, body, body)

    assert [400, 200] == [first.status_code, second.status_code]
    assert "Unexpected role" in first.json()["error"]["message"]
    assert SYSTEM == upstream.requests[2].body["messages"]


TEXT_ONLY = [
    (400, "content is not a string"),
    (422, "Input should be a valid string"),
    (400, "json: cannot unmarshal array into Go struct field Message.messages.content of type string"),
    (400, "Failed to deserialize the JSON body: messages[0].content: invalid type: sequence, expected a string"),
    (500, "'list' object has no attribute 'strip'"),
    (400, "Expected str for field content, got 'list'"),
    (400, "gpt-oss:20b cannot process images"),
    (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
    (500, "unsupported content[].type"),
    (500, 'can only concatenate str (not "list") to str'),
    (400, "facebook/opt-125m is not a multimodal model None"),
    (400, "At most 0 image(s) may be provided in one prompt."),
    (400, "messages[1]: unknown variant `image_url`, expected `text` at line 1"),
    (400, "Type mismatch for 'messages.1.content' key, expected 'String' type"),
    (400, "Image input modality is not enabled for models/gemma-3-1b-it"),
    (404, "No endpoints found that support image input"),
    (400, "TypeError: unhashable type: 'dict'"),
    (400, "Value is not of type text"),
    (400, "Bad Request"),
    (500, "Internal Server Error"),
    (501, ""),
    (415, "Medientyp nicht erlaubt"),
    (400, "content parts other than text need a vision tower"),
    (400, "jinja: TypeError: replace() argument 1 must be str"),
]


@pytest.mark.parametrize(("status", "message"), TEXT_ONLY)
async def test_images_are_refused_in_any_words(status, message):
    scripts = (refusal(message, status), text_reply("So."), text_reply("Yes."))
    async with scripted_upstream(*scripts) as upstream:
        replies = await answers(upstream, *[chat_body(tools=False, messages=LOOK)] * 2)

    assert [200, 200] == [reply.status_code for reply in replies]
    assert [True, False, False] == ["image_url" in str(request.body["messages"]) for request in upstream.requests]


@pytest.mark.parametrize("tools", [True, False])
async def test_a_model_that_has_taken_images_gives_its_error_about_one(tools):
    damaged, reply = refusal("illegal base64 data at input byte 5"), text_reply("So.")
    async with scripted_upstream(reply, damaged, reply) as upstream:
        replies = await answers(upstream, *[chat_body(tools=tools, messages=LOOK)] * 3)

    assert [200, 400, 200] == [reply.status_code for reply in replies]
    assert "illegal base64" in replies[1].text
    assert all("image_url" in str(request.body["messages"]) for request in upstream.requests)


async def test_an_error_that_is_the_same_without_images_is_the_clients():
    error, reply = refusal("temperature must be below 2"), text_reply("So.")
    async with scripted_upstream(error, error, reply) as upstream:
        replies = await answers(upstream, *[chat_body(tools=False, messages=LOOK)] * 2)

    assert [400, 200] == [reply.status_code for reply in replies]
    assert "temperature must be below 2" in replies[0].text
    assert [True, False, True] == ["image_url" in str(request.body["messages"]) for request in upstream.requests]


async def test_only_the_medium_that_was_refused_is_left_out():
    pdf = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}}
    messages = [{"role": "user", "content": [*LOOK[0]["content"], pdf]}]

    def respond(request):
        refused = "application/pdf;base64" in str(request.body)
        return refusal("unknown part") if refused else text_reply("So.")

    async with scripted_upstream(respond=respond) as upstream:
        replies = await answers(upstream, *[chat_body(messages=messages)] * 2)

    assert [200, 200] == [reply.status_code for reply in replies]
    assert [True] * 3 == ["image_url" in str(request.body["messages"]) for request in upstream.requests]


@pytest.mark.parametrize("status", [401, 403, 413, 429, 503])
async def test_other_errors_are_the_clients_to_the_byte(status):
    error = refusal("no images today", status)
    async with scripted_upstream(error) as upstream:
        (reply,) = await answers(upstream, chat_body(tools=False, messages=LOOK))

    assert (status, error.pieces[0]) == (reply.status_code, reply.content)
    assert 1 == len(upstream.requests)


async def test_a_request_for_log_probabilities_gets_the_upstreams_error():
    async with scripted_upstream(NO_IMAGES) as upstream:
        (reply,) = await answers(upstream, chat_body(tools=False, messages=LOOK, logprobs=True))

    assert NO_IMAGES.pieces[0] == reply.content


async def test_an_ollama_client_of_ollama_gets_the_same():
    script = Script((b'{"error": "this model does not support image input"}',), status=400)
    reply = Script((b'{"message": {"role": "assistant", "content": "So."}, "done": true, "done_reason": "stop"}\n',))
    body = {"model": "m", "messages": [{"role": "user", "content": "Look", "images": ["AAAA"]}], "stream": False}
    async with scripted_upstream(script, reply) as upstream:
        (answer,) = await answers(upstream, body, path="/api/chat", upstream_api="ollama")

    assert "So." == answer.json()["message"]["content"]
    assert {"role": "user", "content": SHOWN} == upstream.requests[1].body["messages"][0]


async def test_stream_options_are_not_asked_for_again():
    message = '[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]'
    error = Script((f'{{"detail": {message}}}'.encode(),), status=422)
    async with scripted_upstream(error, text_reply(CALL), text_reply(CALL)) as upstream:
        replies = await answers(upstream, chat_body(), chat_body())

    assert all('"name":"add"' in reply.text for reply in replies)
    assert [True, False, False] == ["stream_options" in request.body for request in upstream.requests]


async def test_fcshim_models_says_what_is_left_out():
    listing = Script((b'{"data": [{"id": "m"}]}',))
    async with (
        scripted_upstream(NO_IMAGES, text_reply("a"), listing=listing) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(messages=LOOK))
        (report,) = (await client.get("/fcshim/models")).json()

    assert ["images"] == report["left_out"]


FAILED = refusal("structure_info not used with HarmonyParser", 500)


@pytest.mark.model_pages
async def test_auto_asks_by_prompt_for_an_hour_after_a_server_error_with_native_tools():
    scripts = (FAILED, text_reply(CALL), text_reply(CALL), text_reply(CALL))
    async with llama_server_with_tools(*scripts) as upstream:
        replies = await answers(upstream, *[chat_body()] * 3)

    assert all('"name":"add"' in reply.text for reply in replies)
    assert [True, False, False, False] == with_tools(upstream)


@pytest.mark.model_pages
async def test_a_server_error_that_comes_without_native_tools_too_is_not_remembered():
    native = reply_script(UPSTREAMS["openai"].codec, native_call(), 9)
    async with llama_server_with_tools(FAILED, FAILED, native) as upstream:
        replies = await answers(upstream, *[chat_body()] * 2)

    assert [502, 200] == [reply.status_code for reply in replies]
    assert [True, False, True] == with_tools(upstream)


@pytest.mark.model_pages
@pytest.mark.parametrize("status", [503, 504])
async def test_auto_does_not_ask_a_busy_server_again(status):
    async with llama_server_with_tools(refusal("Loading model", status)) as upstream:
        (reply,) = await answers(upstream, chat_body())

    assert status == reply.status_code


@pytest.mark.model_pages
async def test_auto_asks_by_prompt_if_the_role_of_results_is_refused():
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "Add"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "3"},
    ]
    refused = refusal("Only user and assistant roles are supported!")
    async with llama_server_with_tools(refused, text_reply("3")) as upstream:
        (reply,) = await answers(upstream, chat_body(messages=history, tools=False))

    assert 200 == reply.status_code
    assert ["user", "assistant", "user"] == [each["role"] for each in upstream.requests[-1].body["messages"]][-3:]


async def test_a_stored_reply_is_always_the_upstreams_own():
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    body = {"model": "m", "input": [{"role": "user", "content": [image]}]}
    async with scripted_upstream(NO_IMAGES) as upstream:
        (reply,) = await answers(upstream, body, path="/v1/responses", upstream_api="responses", tools="native")

    assert (500, NO_IMAGES.pieces[0]) == (reply.status_code, reply.content)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_refusal_in_the_stream_counts_if_nothing_came_before(stream):
    error = Script((event(error={"message": "Model does not support images. Please use a model that does."}),))
    async with scripted_upstream(error, text_reply("So.")) as upstream:
        (reply,) = await answers(upstream, chat_body(messages=LOOK, stream=stream))

    assert (200, True) == (reply.status_code, "So." in reply.text)
    assert SHOWN == upstream.requests[1].body["messages"][-1]["content"]
