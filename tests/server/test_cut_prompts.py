"""Through the proxy: a prompt that the upstream has cut is logged, counted and shown, and the next ones fit."""

import asyncio
import json

import pytest

from fcshim import Client
from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.events import Stop, Text, Usage
from fcshim.messages import AssistantMessage, Request, SystemMessage, TextPart, Tool, UserMessage
from fcshim.pipeline.response import response_for
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


TOOL = Tool("add", "Adds.", {"type": "object", "properties": {}})


def long_talk(turns: int, *, stream: bool, tools: tuple[Tool, ...] = ()) -> Request:
    """Make a conversation in text, in which the user has said as much as in so many files."""
    messages = [SystemMessage((TextPart(WORDS * 70),))]
    for turn in range(turns):
        messages.append(UserMessage((TextPart(f"Part {turn}. " + WORDS * 60),)))
        messages.append(AssistantMessage((TextPart("Fine."),), ()))
    messages[-1:] = [] if turns else [UserMessage((TextPart("Hi"),))]
    return Request(model="m", messages=tuple(messages), tools=tools, stream=stream, include_usage=True, max_tokens=9)


def strings(value: object) -> str:
    if isinstance(value, dict):
        return "".join(map(strings, value.values()))
    return "".join(map(strings, value)) if isinstance(value, list) else value if isinstance(value, str) else ""


def counted_reply(kind, body: dict, *, stream: bool) -> Script:
    """Answer in the upstream's API with the tokens of at most the context."""
    identity = ReplyIdentity(id="reply_1", created=1, model="m")
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), stream=stream, include_usage=True)
    response = response_for(request, identity, kind.codec, max_reply=10_000_000)
    usage = Usage(input_tokens=min(len(strings(body)) // 4, CONTEXT), output_tokens=1)
    events = [(0, Text("Fine.")), (0, usage), (0, Stop(stop_reason="complete"))]
    return Script((response.feed(events) + response.close(),), content_type=response.content_type)


async def relayed_talks(
    kind, requests, caplog, fields: dict | None = None, **settings: object
) -> tuple[list[bytes], list[bytes], list[str]]:
    """Send requests with more fields through the proxy; return what the upstream wrote, what came, and the warnings."""
    written: list[bytes] = []

    def respond(asked) -> Script:
        script = counted_reply(kind, asked.body, stream=requests[0].stream)
        written.append(b"".join(script.pieces))
        return script

    received, bodies = [], []
    async with (
        scripted_upstream(respond=respond, pages={}) as upstream,
        running_proxy(
            upstream.url, metrics=True, inspect=True, tools="native", upstream_api=kind.name, **settings
        ) as url,
        http_client(url) as client,
    ):
        for request in requests:
            sent = kind.codec.encode_request(request)
            path = sent.path[1:] if sent.path.startswith("//") else (kind.version or "/v1") + sent.path
            path = path if kind.name != "ollama" else "/api/chat"
            body = json.loads(sent.body) | (fields or {})
            bodies.append(body)
            reply = await client.post(path, json=body, headers={"content-type": "application/json"})
            received.append(reply.content)
        listed = (await client.get("/fcshim/api/requests")).json()["requests"]
        while any(each["duration"] is None for each in listed):  # the check of the last one follows its end
            await asyncio.sleep(0.01)
            listed = (await client.get("/fcshim/api/requests")).json()["requests"]
        pages = [(await client.get(f"/fcshim/api/requests/{each['id']}")).text for each in listed]
        _, found = await figures(url)
    lines = [record.getMessage() for record in caplog.records if "read only" in record.getMessage()]

    assert bodies == [asked.body for asked in upstream.requests], "not relayed"
    assert len(lines) == sum("the server read only 6,000" in page for page in pages)
    assert len(lines) == found.get(("fcshim_cut_prompts_total", "m", netloc(upstream)), 0)
    return written, received, lines


RELAYED = [
    ("openai", ()),
    ("ollama", ()),
    ("responses", (TOOL,)),
    ("anthropic", ()),
    ("anthropic", (TOOL,)),
    ("gemini", (TOOL,)),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("name", "tools"), RELAYED, ids=[f"{name}-{len(tools)}" for name, tools in RELAYED])
async def test_a_cut_prompt_of_a_relayed_request_is_reported_and_nothing_is_changed(name, tools, stream, caplog):
    requests = [long_talk(turns, stream=stream, tools=tools) for turns in range(12)]
    written, received, lines = await relayed_talks(UPSTREAMS[name], requests, caplog)

    assert written == received
    assert lines
    assert all("m: the server read only 6,000 of about" in line for line in lines)


async def test_a_relayed_request_of_which_everything_was_read_is_none(caplog):
    requests = [long_talk(turns, stream=True) for turns in range(4)]
    _, _, lines = await relayed_talks(UPSTREAMS["openai"], requests, caplog)

    assert [] == lines


async def test_a_relayed_request_is_not_looked_at_where_the_settings_say_so(caplog):
    requests = [long_talk(turns, stream=True) for turns in range(12)]
    _, _, lines = await relayed_talks(UPSTREAMS["openai"], requests, caplog, cut_prompt="off")

    assert [] == lines


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("anthropic", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
        ("anthropic", {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}),
        ("gemini", {"cachedContent": "cachedContents/1"}),
        ("responses", {"previous_response_id": "resp_1"}),
        ("responses", {"input": [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": WORDS * 500}]}),
    ],
)
async def test_a_prompt_that_the_server_itself_changes_is_not_compared(name, fields, caplog):
    requests = [long_talk(turns, stream=True, tools=(TOOL,)) for turns in range(12)]
    _, _, lines = await relayed_talks(UPSTREAMS[name], requests, caplog, fields)

    assert [] == lines
