"""The inspector's JSON: what is captured of requests, who may read it, and what never appears in it."""

import asyncio
import json

import pytest

from tests.scripted import text_chunk
from tests.server.mcp_proxy import proxy_with_servers, stdio_server
from tests.server.proxy import CALL, CHAT, chat_body, http_client, post_chat, running_inspector, running_proxy
from tests.server.raw_upstream import fixed_reply, hang, raw_upstream, stream_chunks, stream_texts, stream_then

REQUESTS = "/fcshim/api/requests"
CANARY = "canary-9f8e7d6c5b4a"


async def summaries(client) -> list:
    return (await client.get(REQUESTS)).json()["requests"]


async def detail(client, place: int = 0) -> dict:
    found = await summaries(client)
    return (await client.get(f"{REQUESTS}/{found[place]['id']}")).json()


async def test_there_is_no_inspector_unless_it_is_asked_for():
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        answers = [await client.get(path) for path in ("/fcshim/", REQUESTS, "/fcshim/api/models")]

    assert [404, 404, 404] == [answer.status_code for answer in answers]


async def test_a_call_is_shown_with_its_prompt_its_chunks_and_its_events():
    pieces = ["So: ", CALL[:20], CALL[20:40], CALL[40:]]
    async with (
        raw_upstream(stream_texts(*pieces)) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body())
        (summary,) = await summaries(client)
        shown = await detail(client)
    (attempt,) = shown["attempts"]
    kinds = [kind for _, kind, _ in attempt["segments"]]
    names = [text for _, kind, text in attempt["segments"] if kind == "name"]
    events = [pair["event"]["type"] for pair in attempt["events"]]

    assert (["calls"], ["add"], "prompt", 200) == tuple(
        summary[key] for key in ("outcome", "calls", "tool_calling", "status")
    )
    assert "".join(pieces) == "".join(text for _, _, text in attempt["segments"])
    assert ["text", "marker", "name", "arguments"] == list(dict.fromkeys(kinds))
    assert ["add"] == names
    assert len(pieces) == len(attempt["times"])
    assert {"text", "tool_call_start", "tool_call_end", "stop"} <= set(events)
    assert "function_call" in attempt["prompt"]["text"]
    assert "tool_calls" in shown["response"]["body"]["text"]
    assert "Hi" in shown["request"]["body"]["text"]


async def test_a_relayed_request_is_shown_as_the_client_got_it():
    async with (
        raw_upstream(stream_texts("Hel", "lo")) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(tools=False))
        (summary,) = await summaries(client)
        shown = await detail(client)

    assert ("relayed", ["text"]) == (summary["tool_calling"], summary["outcome"])
    assert "Hello" == "".join(text for _, _, text in shown["attempts"][0]["segments"])


async def test_the_reason_of_a_second_attempt_is_shown_beside_it():
    broken = '<function_call>\n{"name": "add", "arguments": {"a": ]}\n</function_call>'
    async with (
        raw_upstream(stream_texts(broken), stream_texts(CALL)) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(stream=False))
        (summary,) = await summaries(client)
        shown = await detail(client)

    assert ["calls", "retried"] == summary["outcome"]
    assert [False, True] == [bool(attempt["reason"]) for attempt in shown["attempts"]]


REPAIRED = CALL.replace('"b": 2', "b: 2,")
COERCED = CALL.replace("1", '"1"')
OTHER_DIALECT = CALL.replace("function_call", "tool_call")


@pytest.mark.parametrize(
    ("replies", "outcome"),
    [
        ([REPAIRED], ["calls", "repaired"]),
        ([COERCED], ["calls", "coerced"]),
        ([OTHER_DIALECT], ["calls", "rescued"]),
        ([REPAIRED + REPAIRED.replace("1", "4")], ["calls", "repaired"]),
        ([CALL.replace("add", "subtract")] * 2, ["rejected", "retried"]),
        ([CALL.replace("add", "subtract"), CALL], ["calls", "rejected", "retried"]),
        (["I say: " + CALL], ["calls"]),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_the_outcome_says_what_was_made_of_the_calls(replies, outcome, stream):
    numbers = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    tools = [{"type": "function", "function": {"name": "add", "parameters": numbers}}]
    async with (
        raw_upstream(*(stream_texts(reply) for reply in replies)) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json={**chat_body(stream=stream), "tools": tools})
        (summary,) = await summaries(client)

    assert outcome == summary["outcome"]


def chat_chunk(index: int, delta: dict, reason: str | None = None) -> bytes:
    choice = {"index": index, "delta": delta, "finish_reason": reason}
    document = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(document).encode() + b"\n\n"


@pytest.mark.parametrize("tools", [True, False], ids=["emulated", "relayed"])
async def test_every_choice_of_a_reply_is_shown(tools):
    chunks = [chat_chunk(at % 2, {"content": f"words of {at % 2}. "}) for at in range(4)]
    chunks += [chat_chunk(at, {}, "stop") for at in range(2)]
    async with (
        raw_upstream(stream_chunks(*chunks, b"data: [DONE]\n\n")) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(tools=tools, n=2))
        shown = await detail(client)
    texts = {each["choice"]: "".join(text for _, _, text in each["segments"]) for each in shown["attempts"]}

    assert {0: "words of 0. " * 2, 1: "words of 1. " * 2} == texts


@pytest.mark.parametrize("stream", [True, False])
async def test_a_relayed_reply_has_its_calls_and_tokens(stream):
    call = {"index": 0, "id": "x", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    last = b"data: " + json.dumps({"id": "c", "choices": [], "usage": usage}).encode() + b"\n\n"
    chunks = [chat_chunk(0, {"tool_calls": [call]}), chat_chunk(0, {}, "tool_calls"), last, b"data: [DONE]\n\n"]
    play = stream_chunks(*chunks) if stream else fixed_reply(200, json.dumps(whole).encode())
    async with (
        raw_upstream(play) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(tools=False, stream=stream))
        (summary,) = await summaries(client)

    assert ("relayed", ["calls"], ["add"]) == tuple(summary[key] for key in ("tool_calling", "outcome", "calls"))
    assert (7, 3) == (summary["input_tokens"], summary["output_tokens"])


async def test_a_request_that_still_runs_shows_what_has_come():
    async with (
        raw_upstream(stream_then(text_chunk("So far. "), then=hang)) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
        client.stream("POST", CHAT, json=chat_body()) as response,
    ):
        lines = response.aiter_lines()
        await anext(lines)
        shown = await detail(client)
        await lines.aclose()

    assert ["running"] == shown["summary"]["outcome"]
    assert 0 < shown["summary"]["elapsed"] < 60
    assert "So far. " == shown["response"]["messages"][0]["text"]["text"]
    assert shown["why_no_call"] is None
    assert "So far. " == "".join(text for _, _, text in shown["attempts"][0]["segments"])
    assert "So far. " in shown["response"]["body"]["text"]


async def test_a_refused_request_is_an_error_with_its_message():
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, content=b'{"model": 1}', headers={"content-type": "application/json"})
        (summary,) = await summaries(client)

    assert (["error"], 400) == (summary["outcome"], summary["status"])
    assert summary["error"]


@pytest.mark.security
@pytest.mark.parametrize("cut", [1, 5, 1000])
async def test_no_credential_of_a_request_is_kept_wherever_it_is_repeated(cut):
    arguments = json.dumps({"api_key": CANARY, "nested": json.dumps({"clientSecret": CANARY + "2"})})
    history = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "add", "arguments": arguments}}
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": json.dumps({"password": CANARY + "3"})},
    ]  # fmt: skip
    reply = f"Your key is {CANARY}. " + CALL.replace('"a": 1', f'"key": "{CANARY}"')
    headers = {"authorization": f"Bearer {CANARY}4", "x-custom-token": CANARY + "5", "cookie": f"s={CANARY}6"}
    fields = {"access_token": CANARY + "7", "metadata": {"db_password": CANARY + "8"}}
    async with (
        raw_upstream(stream_texts(*(reply[at : at + cut] for at in range(0, len(reply), cut)))) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        query = f"?api_key={CANARY}9&x=1"
        await client.post(CHAT + query, json=chat_body(messages=history, **fields), headers=headers)
        found = (await client.get(REQUESTS)).text
        shown = await detail(client)

    assert CANARY not in found
    assert CANARY not in json.dumps(shown)
    assert "Your key is " in shown["attempts"][0]["segments"][0][2] or cut == 1
    assert "x=1" in shown["request"]["query"]


@pytest.mark.security
async def test_captures_need_the_key_where_keys_are_configured_and_the_page_does_not():
    from fcshim.config import Secret  # noqa: PLC0415

    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_inspector(upstream.url, api_keys=(Secret("secret-key"),)) as (_, url),
        http_client(url) as client,
    ):
        paths = (REQUESTS, f"{REQUESTS}/1", "/fcshim/api/events", "/fcshim/api/models")
        refused = [(await client.get(path)).status_code for path in paths]
        allowed = await client.get(REQUESTS, headers={"authorization": "Bearer secret-key"})
        page = await client.get("/fcshim/")

    assert [401] * 4 == refused
    assert (200, 200) == (allowed.status_code, page.status_code)


@pytest.mark.security
async def test_no_other_web_origin_reads_captures_even_if_it_may_use_the_api():
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_inspector(upstream.url, allow_origins=("*",)) as (_, url),
        http_client(url) as client,
    ):
        foreign = await client.get(REQUESTS, headers={"origin": "https://evil.example"})
        rebound = await client.get(REQUESTS, headers={"host": "evil.example", "origin": "http://evil.example"})
        own = await client.get(REQUESTS, headers={"origin": url})
        script = await client.get("/fcshim/main.js", headers={"origin": url})  # browsers send it with modules

    assert (403, 403, 200) == (foreign.status_code, rebound.status_code, own.status_code)
    assert 200 == script.status_code
    assert "access-control-allow-origin" not in own.headers
    assert "default-src 'none'" in own.headers["content-security-policy"]


async def test_the_requests_of_a_conversation_have_one_number_and_the_users_last_words():
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    first = {"role": "user", "content": "Add 1 and 2"}
    turns = [first, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "3"}]
    async with (
        raw_upstream(stream_texts(CALL), stream_texts("3"), stream_texts("Hello")) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        for messages in (turns[:1], turns, [{"role": "user", "content": "Something else"}]):
            await client.post(CHAT, json=chat_body(messages=messages))
        found = await summaries(client)

    assert [2, 1, 1] == [each["conversation"] for each in found]
    assert ["Something else", "Add 1 and 2", "Add 1 and 2"] == [each["words"] for each in found]
    assert [[], ["add"], []] == [each["results"] for each in found]


async def test_the_texts_of_requests_and_replies_are_searched():
    async with (
        raw_upstream(*(stream_texts(*words) for words in (("Zür", "ich"), ("Rome",), (CALL,)))) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        headers = {"x-api-key": CANARY}
        for content, offered in (("Straße one", False), ("two", True), (f"three {CANARY}", True)):
            messages = [{"role": "user", "content": content}]
            await client.post(CHAT, json=chat_body(messages=messages, tools=offered), headers=headers)

        async def found(text: str) -> list[str]:
            answer = await client.get(REQUESTS, params={"text": text})
            return [each["id"] for each in answer.json()["requests"]]

        asked = {text: await found(text) for text in ("zürich", "STRASSE", "rome two", "rome one", "a", CANARY, " ")}
        too_long = await client.get(REQUESTS, params={"text": "x" * 300})

    assert {"zürich": ["1"], "STRASSE": ["1"], "rome two": ["2"], "rome one": [], CANARY: []} == {
        text: ids for text, ids in asked.items() if text not in ("a", " ")
    }
    assert ["3", "2", "1"] == asked[" "]
    assert 400 == too_long.status_code


CLIENT_APIS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 99},
    "/v1/responses": {"input": "Hi"},
    "/api/chat": {"messages": [{"role": "user", "content": "Hi"}]},
}


@pytest.mark.parametrize("path", CLIENT_APIS)
@pytest.mark.parametrize("stream", [True, False])
async def test_what_the_client_got_is_one_message(path, stream):
    numbers = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tool = {"name": "add", "description": "", "parameters": numbers}
    if path == "/v1/messages":
        tool = {"name": "add", "input_schema": numbers}
    elif path == "/v1/responses":
        tool = {"type": "function", **tool}
    else:
        tool = {"type": "function", "function": tool}
    async with (
        raw_upstream(stream_texts("Let me ", "see. ", *CALL)) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        body = {"model": "m", "stream": stream, "tools": [tool], **CLIENT_APIS[path]}
        await client.post(path, json=body)
        (message,) = (await detail(client))["response"]["messages"]

    assert "Let me see." == message["text"]["text"].strip()
    assert [("add", {"a": 1, "b": 2})] == [
        (call["name"], json.loads(call["arguments"]["text"])) for call in message["calls"]
    ]
    assert "tool_use" == message["stop"]


async def test_a_second_attempt_has_its_differences_from_the_first():
    wrong = CALL.replace("add", "subtract")
    async with (
        raw_upstream(stream_texts(wrong), stream_texts(CALL)) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body())
        first, second = (await detail(client))["attempts"]

    assert first["diff"] is None
    assert [["removed", "subtract"], ["added", "add"]] == [each for each in second["diff"] if each[0] != "same"]


async def test_a_front_of_the_prompt_that_varies_and_cached_tokens_are_shown():
    rules = "\n".join(f"Rule {at}: be careful with what you do." for at in range(200))
    usage = {"prompt_tokens": 2000, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1900}}
    last = b"data: " + json.dumps({"id": "c", "choices": [], "usage": usage}).encode() + b"\n\n"
    chunks = [chat_chunk(0, {"content": "Hi"}), chat_chunk(0, {}, "stop"), last, b"data: [DONE]\n\n"]
    async with (
        raw_upstream(stream_chunks(*chunks)) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        for session in range(2):
            system = {"role": "system", "content": f"Session {session}\n{rules}"}
            await client.post(CHAT, json=chat_body(messages=[system, {"role": "user", "content": "Hi"}]))
        first, second = await detail(client, 1), await detail(client, 0)

    assert "" == first["attempts"][0]["front"]
    assert "its line 1 differs from the requests before: 'Session 1'" in second["attempts"][0]["front"]
    assert 1900 == second["summary"]["cached_tokens"]


async def test_the_ring_stays_below_its_limit_and_keeps_the_last_requests():
    async with (
        raw_upstream(*(stream_texts("x" * 2_000) for _ in range(60))) as upstream,
        running_proxy(upstream.url, inspect=True, inspect_bytes=2**16) as url,
        http_client(url) as client,
    ):
        for _ in range(60):
            await client.post(CHAT, json=chat_body())
        found = await summaries(client)

    assert "60" == found[0]["id"]
    assert 2 < len(found) < 30


async def test_changes_come_as_server_sent_events_while_a_stream_runs():
    async with (
        raw_upstream(stream_texts("Hi")) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
        client.stream("GET", "/fcshim/api/events") as response,
    ):
        lines = response.aiter_lines()
        await anext(lines)
        posted = asyncio.create_task(post_chat(url))
        async for line in lines:
            if line.startswith("data: ") and json.loads(line[6:])[0]["duration"] is not None:
                break
        await posted

    assert "1" == json.loads(line[6:])[0]["id"]


async def test_the_playground_parses_what_it_gets():
    text = "Hi <tool_call>\n{'name': 'add', 'arguments': {'a': 1,}}\n</tool_call>"
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        asked = {"text": text, "dialect": "hermes", "tools": [{"name": "add"}], "chunk": 5}
        parsed = await client.post("/fcshim/api/parse", json=asked)
        path = await client.post("/fcshim/api/parse", json={"text": "x", "dialect": "../../etc"})
        large = await client.post("/fcshim/api/parse", json={"text": "x" * 2_000_000})
        tag = await client.post("/fcshim/api/parse", json={"text": "x", "open_reasoning_tag": "<none>"})
    shown = parsed.json()

    assert text == "".join(each for _, _, each in shown["segments"])
    assert "repaired" in {kind for _, kind, _ in shown["segments"]}
    assert "tool_call_end" in {pair["event"]["type"] for pair in shown["events"]}
    assert (400, 413, 400) == (path.status_code, large.status_code, tag.status_code)


async def test_the_page_is_served_with_its_policy_and_names_nothing_elsewhere():
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        page = await client.get("/fcshim/")
        script = await client.get("/fcshim/main.js")
        missing = await client.get("/fcshim/../app.py")

    assert (200, 200) == (page.status_code, script.status_code)
    assert 200 != missing.status_code
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "https://" not in page.text + script.text


@pytest.mark.security
async def test_the_inspector_has_a_port_that_serves_nothing_else_and_is_nowhere_else():
    others = (
        "/",
        "/health",
        "/ready",
        "/metrics",
        "/fcshim/models",
        "/v1/models",
        "/v1/files",
        "/nothing",
        "/api/tags",
    )
    own = ("/fcshim/", "/fcshim/main.js", REQUESTS, f"{REQUESTS}/1", "/fcshim/api/models")
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_inspector(upstream.url, metrics=True) as (url, inspector_url),
        http_client(url) as client,
        http_client(inspector_url) as inspector,
    ):
        await client.post(CHAT, json=chat_body())
        at_inspector = [(await inspector.get(path)).status_code for path in others]
        posted = [(await inspector.post(path, json=chat_body())).status_code for path in (CHAT, "/v1/messages", "/")]
        asked = len(upstream.requests)
        elsewhere = [await client.get(path) for path in own]
        shown = [(await inspector.get(path)).status_code for path in own]
        listed = await summaries(inspector)

    assert [307, *[404] * 8] == at_inspector
    assert [404] * 3 == posted
    assert 1 == asked
    assert [404] * 5 == [answer.status_code for answer in elsewhere]
    assert all(inspector_url.rpartition(":")[2] in answer.json()["error"]["message"] for answer in elsewhere)
    assert [200] * 5 == shown
    assert [CHAT] == [each["path"] for each in listed]


@pytest.mark.security
@pytest.mark.parametrize("size", [10, 40_000])
async def test_a_large_prompt_is_masked_too(size):
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        messages = [{"role": "user", "content": f"{'x' * size} {CANARY}"}]
        await client.post(CHAT, json=chat_body(messages=messages), headers={"x-api-key": CANARY})
        shown = await detail(client)

    assert "x" * 10 in shown["request"]["body"]["text"]
    assert CANARY not in json.dumps(shown)


@pytest.mark.security
async def test_a_relayed_reply_that_repeats_a_credential_is_masked():
    async with (
        raw_upstream(stream_texts("It is ", CANARY[:5], CANARY[5:])) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(tools=False), headers={"x-api-key": CANARY})
        shown = await detail(client)

    assert "It is *" in shown["attempts"][0]["segments"][0][2]
    assert CANARY not in json.dumps(shown)
    assert CANARY[:5] not in json.dumps(shown)


async def test_the_categories_of_offered_tools_are_shown(tmp_path):
    servers = {"f": {**stdio_server("friendly"), "category": "sums"}, "g": stdio_server("friendly")}
    async with (
        proxy_with_servers(tmp_path, servers, "Hello.", inspect=True) as (url, upstream),
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body())
        shown = await detail(client)
    found = {tool["name"]: tool["category"] for tool in shown["tools"]}

    assert ("", "sums", "mcp") == tuple(found[name] for name in ("add", "mcp__f__add", "mcp__g__add"))
    assert "sums" not in json.dumps(upstream.requests[-1].body)
