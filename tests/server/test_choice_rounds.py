"""Several choices of one reply, in front of upstreams that give one at a time."""

import json

import pytest

from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.errors import UpstreamError
from fcshim.events import Error, Stop, Text, Usage
from fcshim.messages import Request
from fcshim.server.rounds import ChoiceRounds
from tests.scripted import CUT, Script, scripted_upstream, text_reply
from tests.server.proxy import CALL, CHAT, chat_body, http_client, running_proxy, stream_documents, streamed_text
from tests.server.test_api_pairs import reply_script

GEMINI = "/v1beta/models/m:"
CONTENTS = [{"role": "user", "parts": [{"text": "Hi"}]}]
ADD = {"functionDeclarations": [{"name": "add", "parametersJsonSchema": {"type": "object"}}]}


async def answer(upstream, path, body, **settings):
    async with running_proxy(upstream.url, **settings) as url, http_client(url) as client:
        return await client.post(path, json=body)


@pytest.mark.parametrize("stream", [True, False])
async def test_an_upstream_that_ignores_n_is_asked_for_each_choice(stream):
    async with scripted_upstream(text_reply("One"), text_reply(CALL), text_reply("Three")) as upstream:
        reply = await answer(
            upstream, CHAT, chat_body(stream=stream, n=3, seed=7, stream_options={"include_usage": True})
        )

    assert [(3, 7), (None, 8), (None, 9)] == [(each.body.get("n"), each.body["seed"]) for each in upstream.requests]
    if stream:
        documents = [document for document in stream_documents(reply) if document != "DONE"]
        finished = [each for document in documents for each in document["choices"] if each["finish_reason"]]

        assert ["One", "", "Three"] == [streamed_text(documents, index) for index in range(3)]
        assert [(0, "stop"), (1, "tool_calls"), (2, "stop")] == [
            (each["index"], each["finish_reason"]) for each in finished
        ]
        assert 15 == documents[-1]["usage"]["completion_tokens"]
    else:
        choices = reply.json()["choices"]

        assert [(0, "One"), (1, None), (2, "Three")] == [
            (each["index"], each["message"]["content"]) for each in choices
        ]
        assert "add" == choices[1]["message"]["tool_calls"][0]["function"]["name"]
        assert (10, 15) == (reply.json()["usage"]["prompt_tokens"], reply.json()["usage"]["completion_tokens"])


@pytest.mark.parametrize("stream", [True, False])
async def test_a_gemini_client_gets_all_its_candidates(stream):
    body = {"contents": CONTENTS, "tools": [ADD], "generationConfig": {"candidateCount": 2}}
    path = GEMINI + ("streamGenerateContent?alt=sse" if stream else "generateContent")
    async with scripted_upstream(text_reply("One"), text_reply("Two")) as upstream:
        reply = await answer(upstream, path, body)

    documents = [json.loads(line[6:]) for line in reply.text.split("\n") if line.startswith("data: ")]
    candidates = [each for document in documents or [reply.json()] for each in document["candidates"]]
    texts = {each["index"]: "" for each in candidates}
    for each in candidates:
        texts[each["index"]] += "".join(part["text"] for part in each["content"]["parts"])

    assert {0: "One", 1: "Two"} == texts
    assert 10 == (documents or [reply.json()])[-1]["usageMetadata"]["candidatesTokenCount"]


@pytest.mark.parametrize("name", [name for name in UPSTREAMS if name != "openai"])
async def test_an_api_without_several_choices_is_asked_for_one_at_a_time(name):
    scripts = [
        reply_script(UPSTREAMS[name].codec, [Text(text), Usage(3, 4), Stop("complete")], 9) for text in ("One", "Two")
    ]
    async with scripted_upstream(*scripts) as upstream:
        reply = await answer(upstream, CHAT, chat_body(stream=False, n=2), upstream_api=name, tools="prompt")

    assert ["One", "Two"] == [each["message"]["content"] for each in reply.json()["choices"]]


async def test_an_upstream_that_gives_some_choices_is_asked_for_the_rest():
    events = [
        {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": "stop"}]}
        for index, text in ((0, "One"), (2, "Three"))
    ]
    some = Script((*(b"data: " + json.dumps(each).encode() + b"\n\n" for each in events), b"data: [DONE]\n\n"))
    async with scripted_upstream(some, text_reply("Two")) as upstream:
        reply = await answer(upstream, CHAT, chat_body(stream=False, n=3))

    assert ["One", "Two", "Three"] == [each["message"]["content"] for each in reply.json()["choices"]]
    assert 2 == len(upstream.requests)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_choice_that_fails_is_an_error_of_the_reply(stream):
    cut = Script((*text_reply("Tw").pieces[:2], CUT))
    async with scripted_upstream(text_reply("One"), cut) as upstream:
        reply = await answer(upstream, CHAT, chat_body(stream=stream, n=2))

    assert (200 if stream else 502) == reply.status_code
    assert '"error"' in reply.text
    assert "[DONE]" not in reply.text


async def test_a_round_has_the_choices_that_are_missing():
    rounds = ChoiceRounds(Request(model="m", messages=(), n=3), together=False)
    first = rounds.feed([(0, Text("a")), (0, Stop("complete"))])
    await rounds.next_round()
    second = rounds.feed([(0, Text("b"))])
    error = rounds.fail([], UpstreamError("lost"))

    assert (1, [(0, Text("a")), (0, Stop("complete"))], [(1, Text("b"))]) == (rounds.request.n, first, second)
    assert [(1, Error(kind="upstream_error", message="lost"))] == error
    assert rounds.finished
