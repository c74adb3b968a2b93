"""Through the proxy: a prompt that the upstream has cut is logged, counted and shown, and the next ones fit."""

import pytest

from fcshim import Client
from tests.scripted import ROLE, Script, end_chunks, scripted_upstream, text_chunk
from tests.server.proxy import CHAT, chat_body, http_client, running_proxy
from tests.server.test_metrics import figures, netloc

CONTEXT = 6_000
WORDS = "The harbour master counts every boat that comes in before the tide turns. "


def text_of(body: dict) -> str:
    return "".join(message["content"] or "" for message in body["messages"])


def answer(asked) -> Script:
    """Read at most the tokens of the context, as Ollama does."""
    tokens = min(len(text_of(asked.body)) // 4, CONTEXT)
    end = end_chunks().replace(b'"prompt_tokens": 10', b'"prompt_tokens": %d' % tokens)
    return Script((ROLE, text_chunk("Fine."), end))


def growing(turns: int) -> list[dict]:
    """Make a conversation whose model has read as many files."""
    messages: list[dict] = [{"role": "system", "content": WORDS * 70}, {"role": "user", "content": "Read the files."}]
    for turn in range(turns):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "add", "arguments": f'{{"a": {turn}}}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": f"File {turn}. " + WORDS * 60})
    return messages


async def converse(url: str, turns: range, **fields: object) -> list:
    async with http_client(url) as client:
        return [await client.post(CHAT, json=chat_body(messages=growing(turn), **fields)) for turn in turns]


async def test_a_cut_prompt_is_reported_once_and_the_next_ones_fit(caplog):
    async with (
        scripted_upstream(respond=answer, pages={}) as upstream,
        running_proxy(upstream.url, metrics=True, inspect=True) as url,
    ):
        await converse(url, range(12))
        _, found = await figures(url)
        async with http_client(url) as client:
            listed = (await client.get("/fcshim/api/requests")).json()["requests"]
            pages = [(await client.get(f"/fcshim/api/requests/{each['id']}")).text for each in listed]
    sizes = [len(text_of(asked.body)) // 4 for asked in upstream.requests]
    cut = [at for at, size in enumerate(sizes) if size > CONTEXT]
    lines = [record.getMessage() for record in caplog.records if "read only" in record.getMessage()]

    assert [4, 5] == cut
    assert 1 == len(lines) == found["fcshim_cut_prompts_total", "m", netloc(upstream)]
    assert "m: the server read only 6,000 of about" in lines[0]
    assert 1 == sum("the server read only 6,000" in page for page in pages)


async def test_the_next_requests_with_native_tools_fit_too():
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    async with (
        scripted_upstream(respond=answer, pages={}) as upstream,
        Client(upstream.url, model="m", tools="native", constrain="off") as client,
    ):
        for turn in range(12):
            await client.complete(growing(turn), [tool])
    sent = [asked.body["messages"] for asked in upstream.requests]
    sizes = [len(text_of(asked.body)) // 4 for asked in upstream.requests]
    cut = [at for at, size in enumerate(sizes) if size > CONTEXT]
    kept = growing(11)[-4:]

    assert 1 <= len(cut) <= 2
    assert cut == list(range(cut[0], cut[0] + len(cut)))
    assert [2 + 2 * turn for turn in range(12)] == [len(messages) for messages in sent]
    assert all(asked.body["tools"] for asked in upstream.requests)
    assert [each["content"] for each in kept] == [each["content"] for each in sent[-1][-4:]]
    assert "characters left out" in sent[-1][3]["content"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_cut_prompt_is_an_error_where_the_settings_say_so(stream):
    async with (
        scripted_upstream(respond=answer, pages={}) as upstream,
        running_proxy(upstream.url, cut_prompt="error") as url,
    ):
        replies = await converse(url, range(12), stream=stream)
    failed = [reply for reply in replies if "context_length_exceeded" in reply.text]

    assert 1 == len(failed)
    assert "the server read only 6,000 of about" in failed[0].text
    assert (200 if stream else 502) == failed[0].status_code


async def test_nothing_is_looked_for_where_the_settings_say_so(caplog):
    async with (
        scripted_upstream(respond=answer, pages={}) as upstream,
        running_proxy(upstream.url, cut_prompt="off") as url,
    ):
        await converse(url, range(12))

    assert len(text_of(upstream.requests[-1].body)) // 4 > CONTEXT
    assert not [record for record in caplog.records if "read only" in record.getMessage()]


async def test_ollama_is_asked_for_the_context_length_of_the_settings():
    line = b'{"model":"m","message":{"role":"assistant","content":"Fine."},"done":true,"prompt_eval_count":9}'
    async with (
        scripted_upstream(Script((line + b"\n",)), pages={}) as upstream,
        running_proxy(upstream.url, upstream_api="ollama", tools="prompt", num_ctx=16_384) as url,
    ):
        await converse(url, range(1))

    assert 16_384 == upstream.requests[0].body["options"]["num_ctx"]


async def test_cached_tokens_and_a_varying_front_are_named(caplog):
    caplog.set_level("INFO")
    rules = "\n".join(f"Rule {number}: count boat {number} before the tide turns." for number in range(200))
    usage = b'"prompt_tokens": 2000, "prompt_tokens_details": {"cached_tokens": 1900}'
    reply = Script((ROLE, text_chunk("Fine."), end_chunks().replace(b'"prompt_tokens": 10', usage)))
    async with (
        scripted_upstream(respond=lambda _: reply, pages={}) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        for session in (7, 8):
            system = {"role": "system", "content": f"Session {session}\n{rules}"}
            body = chat_body(messages=[system, {"role": "user", "content": "Hi"}])
            await client.post(CHAT, json=body)
        listed = (await client.get("/fcshim/api/requests")).json()["requests"]
    lines = [record.getMessage() for record in caplog.records if record.name == "fcshim.dispatch"]
    again = [line for line in lines if "are read again" in line]

    assert 2 == lines.count("m: 1,900 of 2,000 tokens of the prompt were in the server's cache")
    assert 1 == len(again)
    assert again[0].endswith("line 1 differs from the requests before: 'Session 8'")
    assert [1_900, 1_900] == [each["cached_tokens"] for each in listed]
