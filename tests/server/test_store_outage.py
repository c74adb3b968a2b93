"""A store outage: requests that need the store get 503 in the client's form, all others work, and nothing blocks."""

import asyncio
import logging

import anthropic
import openai
import pytest
from google import genai

from fcshim.errors import StoreError
from fcshim.server.store import MemoryStore, StoredDocument, owner_of
from fcshim.server.store.outage import OutageGuard
from tests.mcp.server_programs import serve_over_http
from tests.scripted import scripted_upstream, text_reply
from tests.server.mcp_proxy import ADD, prompts, proxy_with_servers
from tests.server.proxy import CHAT, chat_body, http_client, running_proxy
from tests.server.redis_server import running_redis
from tests.virtual_time import in_virtual_time

PATH = "/v1/responses"
NOTHING = {"max_retries": 0}


class FaultyStore(MemoryStore):
    """A store that cannot be read: it raises its fault, or answers after so many seconds."""

    def __init__(self):
        super().__init__()
        self.fault = None
        self.asked = 0

    async def find(self, owner, names):
        self.asked += 1
        if isinstance(self.fault, float):
            await asyncio.sleep(self.fault)
        elif self.fault is not None:
            raise self.fault
        return await super().find(owner, names)


@pytest.fixture
def redis_server(tmp_path):
    with running_redis(tmp_path) as server:
        yield server


@pytest.fixture(scope="module")
def friendly():
    with serve_over_http("http") as endpoint:
        yield {"f": {"url": endpoint.url}}


async def test_after_a_failure_others_fail_at_once_and_one_at_a_time_tries_again(caplog):
    store = FaultyStore()
    guard = OutageGuard(store, "the store", pause=0.0)
    await guard.keep("me", StoredDocument("a", b"1"))
    store.fault = StoreError("broken disk")
    for _ in range(3):
        with pytest.raises(StoreError):
            await guard.find("me", ["a"])
    waiting = OutageGuard(store, "the store", pause=1000.0)
    for _ in range(3):
        with pytest.raises(StoreError, match="is unavailable; try again later") as caught:
            await waiting.find("me", ["a"])

    assert "broken disk" not in caught.value.message
    assert 1000 == caught.value.retry_after
    assert 3 + 1 == store.asked
    store.fault = None
    assert {"a": b"1"} == await guard.find("me", ["a"])
    assert ["broken disk", "broken disk", "the store is back"] == [
        record.getMessage().rpartition(": ")[2] for record in caplog.records
    ]


@in_virtual_time
async def test_a_store_that_never_answers_is_left_after_the_limit_and_asked_by_one_at_a_time():
    store = FaultyStore()
    store.fault = 1000.0
    guard = OutageGuard(store, "the store", timeout=0.5, pause=0.0)
    with pytest.raises(StoreError):
        await guard.find("me", ["a"])
    asked = store.asked
    answers = await asyncio.gather(*(guard.find("me", ["a"]) for _ in range(50)), return_exceptions=True)

    assert all(isinstance(answer, StoreError) for answer in answers)
    assert asked + 1 == store.asked


async def test_what_cannot_be_read_can_be_written_and_the_log_says_it_once(caplog):
    """Such as a full disk the other way round: successes of one kind do not end the outage of the other."""
    store = FaultyStore()
    store.fault = StoreError("broken disk")
    guard = OutageGuard(store, "the store", pause=0.0)
    for name in "abc":
        await guard.keep("me", StoredDocument(name, b"1"))
        with pytest.raises(StoreError):
            await guard.find("me", [name])
        assert "broken disk" == await guard.problem()
    store.fault = None

    assert "" == await guard.problem()
    assert 3 == len(await guard.find("me", list("abc")))
    assert 2 == len(caplog.records)


async def test_replies_work_during_a_store_outage_and_follow_ups_get_503(redis_server, caplog):
    caplog.set_level(logging.WARNING)
    scripts = [text_reply(str(number)) for number in range(10)]
    async with (
        scripted_upstream(*scripts) as upstream,
        running_proxy(upstream.url, store=redis_server.url) as url,
        http_client(url) as client,
        openai.AsyncOpenAI(base_url=url + "/v1", api_key="x", **NOTHING) as sdk,
    ):
        first = await sdk.responses.create(model="m", input="Hi")
        redis_server.kill()
        second = await sdk.responses.create(model="m", input="Hi")
        streamed = [each async for each in await sdk.responses.create(model="m", input="Hi", stream=True)]
        chat = await client.post(CHAT, json=chat_body(stream=False))
        with pytest.raises(openai.InternalServerError) as refused:
            await sdk.responses.create(model="m", input="And?", previous_response_id=first.id)
        others = [
            await client.get(f"{PATH}/{first.id}"),
            await client.delete(f"{PATH}/{first.id}"),
            await client.get(f"{PATH}/{first.id}/input_items"),
            await client.post(f"{PATH}/input_tokens", json={"model": "m", "previous_response_id": first.id}),
            await client.post(PATH, json={"model": "m", "input": [{"type": "item_reference", "id": "x"}]}),
        ]
        ready = (await client.get("/ready")).json()
        redis_server.start()
        for _ in range(1_200):
            # Reading is tried again before writing, or after it: the next reply is stored when both work.
            found = (await client.get(f"{PATH}/{second.id}")).status_code
            if found != 503 and (await client.get("/ready")).json()["store"]["status"] != "unavailable":
                break
            await asyncio.sleep(0.05)
        third = await sdk.responses.create(model="m", input="Hi")
        fourth = await sdk.responses.create(model="m", input="And?", previous_response_id=third.id)

    assert ("1", 200) == (second.output_text, chat.status_code)
    assert "response.completed" == streamed[-1].type
    assert [503] * 6 == [refused.value.status_code, *(each.status_code for each in others)]
    assert all("1" == each.headers["retry-after"] for each in (refused.value.response, *others))
    assert "is unavailable; try again later" in refused.value.body["message"]
    assert "unavailable" == ready["store"]["status"]
    assert str(redis_server.port) in ready["store"]["reason"]
    assert fourth.output_text
    assert ["is unavailable", "is back"] == [
        word for record in caplog.records for word in ("is unavailable", "is back") if word in record.message
    ]


async def test_a_server_that_hangs_delays_only_what_needs_it(redis_server):
    scripts = [text_reply(str(number)) for number in range(40)]
    async with (
        scripted_upstream(*scripts) as upstream,
        running_proxy(upstream.url, store=redis_server.url) as url,
        http_client(url) as client,
    ):
        name = (await client.post(PATH, json={"model": "m", "input": "Hi"})).json()["id"]
        redis_server.pause()
        try:
            body = {"model": "m", "input": "And?", "previous_response_id": name}
            waiting = asyncio.create_task(client.post(PATH, json=body))
            chats = [await client.post(CHAT, json=chat_body(stream=False)) for _ in range(10)]
            waits = not waiting.done()
            refused = await waiting
            again = await client.post(PATH, json=body)
        finally:
            redis_server.resume()

    assert waits
    assert {200} == {each.status_code for each in chats}
    assert [503, 503] == [refused.status_code, again.status_code]


@pytest.mark.parametrize("api", ["openai", "anthropic", "gemini"])
async def test_a_tool_loop_that_cannot_look_up_its_turns_says_so_in_every_api(api, friendly, tmp_path, redis_server):
    async with proxy_with_servers(tmp_path, friendly, "Hi.", store=redis_server.url) as (url, upstream):
        redis_server.kill()
        match api:
            case "openai":
                history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
                async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="x", **NOTHING) as sdk:
                    with pytest.raises(openai.InternalServerError) as caught:
                        await sdk.chat.completions.create(model="m", messages=[*history, history[0]])
                    await sdk.chat.completions.create(model="m", messages=history[:1])
            case "anthropic":
                history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
                async with anthropic.AsyncAnthropic(base_url=url, api_key="x", **NOTHING) as sdk:
                    with pytest.raises(anthropic.InternalServerError) as caught:
                        await sdk.messages.create(model="m", max_tokens=9, messages=[*history, history[0]])
                    await sdk.messages.create(model="m", max_tokens=9, messages=history[:1])
            case "gemini":
                turns = [{"role": role, "parts": [{"text": "x"}]} for role in ("user", "model", "user")]
                with genai.Client(api_key="x", http_options=genai.types.HttpOptions(base_url=url)) as sdk:
                    with pytest.raises(genai.errors.ServerError) as caught:
                        await asyncio.to_thread(sdk.models.generate_content, model="m", contents=turns)
                    await asyncio.to_thread(sdk.models.generate_content, model="m", contents=turns[:1])

    status = caught.value.code if api == "gemini" else caught.value.status_code
    assert 503 == status
    assert "is unavailable; try again later" in str(caught.value)
    assert 1 == len(upstream.requests)


async def test_the_turns_of_a_tool_loop_survive_a_restart(friendly, tmp_path, redis_server):
    question = {"role": "user", "content": "How much?"}
    settings = {"store": redis_server.url}
    async with (
        proxy_with_servers(tmp_path, friendly, ADD, "It is 3.", **settings) as (url, _),
        http_client(url) as client,
    ):
        reply = await client.post(CHAT, json=chat_body(stream=True, tools=False, messages=[question]))
    said = {"role": "assistant", "content": "It is 3."}
    async with (
        proxy_with_servers(tmp_path, friendly, "Yes.", **settings) as (url, upstream),
        http_client(url) as client,
    ):
        messages = [question, said, {"role": "user", "content": "Sure?"}]
        await client.post(CHAT, json=chat_body(stream=False, tools=False, messages=messages))

    assert "It is 3." in reply.text
    assert ADD in prompts(upstream)[-1]


async def test_ready_reports_the_store(redis_server, tmp_path):
    async with scripted_upstream(listing=text_reply("x")) as upstream:
        answers = []
        for store in (redis_server.url, f"sqlite:{tmp_path / 'state'}", "memory"):
            async with running_proxy(upstream.url, store=store) as url, http_client(url) as client:
                answers.append((await client.get("/ready")).json().get("store"))

    assert [{"kind": "redis", "status": "ok"}, {"kind": "sqlite", "status": "ok"}, None] == answers


def test_owners_are_alike_everywhere():
    """Processes of different releases share a store: the hash of a key stays the same."""
    assert "cae66941d9efbd404e4d88758ea67670" == owner_of(b"")
