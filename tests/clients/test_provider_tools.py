"""Tools that clients expect their provider to run: refused, left out, or run by the proxy with a search service."""

import contextlib

import anthropic
import openai
import pytest
from aiohttp import web
from google import genai
from google.genai import errors, types

from fcshim.tools.builtin import addresses
from tests.scripted import scripted_upstream, text_reply
from tests.server.mcp_proxy import call_text, prompts
from tests.server.proxy import running_proxy

pytestmark = [
    # with aiohttp installed, Google's SDK causes warnings of aiohttp
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]

STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
HI = [{"role": "user", "content": "Who won?"}]
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}
WEATHER = {"name": "weather", "input_schema": {"type": "object"}}
FUNCTION = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
RESULTS = [
    {"title": "Cup", "url": "https://sport.example.org/cup", "content": "Oslo won 3:1."},
    {"title": "Ads", "url": "https://ads.example.com/", "content": "Buy."},
]
ASKED = call_text("web_search", query="cup winner")


class SearchSite:
    """A search service that answers as SearXNG does, and a page of plain text; `asked` are the queries."""

    def __init__(self):
        self.url = ""
        self.asked = []

    async def search(self, request):
        self.asked.append((request.query["q"], request.query["format"]))
        return web.json_response({"query": request.query["q"], "results": RESULTS})

    async def page(self, _):
        return web.Response(text="Oslo won the cup.\nBergen lost it.")


@contextlib.asynccontextmanager
async def search_site():
    site = SearchSite()
    app = web.Application()
    app.add_routes([web.get("/search", site.search), web.get("/page", site.page)])
    runner = web.AppRunner(app)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    site.url = f"http://127.0.0.1:{listener._server.sockets[0].getsockname()[1]}"
    try:
        yield site
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def proxy(*replies, search=True, **settings):
    """Serve fcshim with a search service; yield its URL, the upstream and the service."""
    async with search_site() as site, scripted_upstream(*map(text_reply, replies), pages={}) as upstream:
        own = {"web_search": site.url} if search else {}
        async with running_proxy(upstream.url, **own, **settings) as url:
            yield url, upstream, site


def asking(text):
    return [{"role": "user", "content": f"What does {text} say?"}]


def anthropic_client(url):
    return anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0)


def openai_client(url):
    return openai.AsyncOpenAI(base_url=url + "/v1", api_key="x", max_retries=0)


async def message(sdk, *, stream=False, **fields):
    fields = {"model": "m", "max_tokens": 100, "messages": HI, **fields}
    if not stream:
        return await sdk.messages.create(**fields)
    async with sdk.messages.stream(**fields) as events:
        return await events.get_final_message()


async def response(sdk, *, stream=False, **fields):
    if not stream:
        return await sdk.responses.create(model="m", **{"input": "Who won?", **fields})
    async with sdk.responses.stream(model="m", **{"input": "Who won?", **fields}) as events:
        return await events.get_final_response()


async def candidate(url, config, *, stream=False):
    """Return the last candidate of a reply, with the text of all."""
    options = types.HttpOptions(base_url=url, retry_options=types.HttpRetryOptions(attempts=1))
    asked = {"model": "m", "contents": "Who won?", "config": config}
    async with genai.Client(api_key="x", http_options=options).aio as client:
        if not stream:
            return (await client.models.generate_content(**asked)).candidates[0]
        chunks = [each async for each in await client.models.generate_content_stream(**asked)]
    last = chunks[-1].candidates[0]
    last.content.parts[0].text = "".join(each.text or "" for each in chunks)
    return last


# --- refused


@pytest.mark.parametrize(
    ("kind", "name"),
    [("web_search_20250305", "web_search"), ("code_execution_20250825", "code_execution"), ("of_the_future_1", "x")],
)
@STREAMS
async def test_anthropic_s_client_gets_an_error_that_names_the_tool(stream, kind, name):
    async with proxy(search=False) as (url, upstream, _), anthropic_client(url) as sdk:
        for fields in ({"tools": [{"type": kind, "name": name}]}, _forced(kind, name)):
            with pytest.raises(anthropic.BadRequestError) as caught:
                await message(sdk, stream=stream, **fields)

            assert "invalid_request_error" == caught.value.body["error"]["type"]
            assert kind in caught.value.message
            assert "--web-search" in caught.value.message

    assert not upstream.requests


def _forced(kind, name):
    return {"tools": [WEATHER, {"type": kind, "name": name}], "tool_choice": {"type": "tool", "name": name}}


@pytest.mark.parametrize("kind", ["web_search", "file_search", "code_interpreter", "image_generation", "mcp"])
@STREAMS
async def test_openai_s_client_gets_an_error_that_names_the_tool(stream, kind):
    async with proxy(search=False) as (url, upstream, _), openai_client(url) as sdk:
        forced = {"tools": [FUNCTION, {"type": kind}], "tool_choice": {"type": kind}}
        for fields in ({"tools": [{"type": kind}]}, {"tools": [{"type": kind}], "tool_choice": "required"}, forced):
            with pytest.raises(openai.BadRequestError, match=kind) as caught:
                await sdk.responses.create(model="m", input="Hi", stream=stream, **fields)

            assert ("unsupported_tool", "invalid_request_error") == (caught.value.code, caught.value.type)

    assert not upstream.requests


@pytest.mark.parametrize("kind", ["google_search", "url_context", "code_execution", "google_maps"])
@STREAMS
async def test_google_s_client_gets_an_error_that_names_the_tool(stream, kind):
    config = {"tools": [{kind: {}}]}
    async with proxy(search=False) as (url, upstream, _):
        with pytest.raises(errors.ClientError) as caught:
            await candidate(url, config, stream=stream)

    assert (400, "INVALID_ARGUMENT") == (caught.value.code, caught.value.status)
    assert kind.partition("_")[0] in caught.value.message
    assert not upstream.requests


# --- left out


async def test_beside_functions_the_model_and_the_operator_are_told(caplog):
    caplog.set_level("INFO", logger="fcshim.server")
    async with proxy("No idea.", "No idea.", search=False) as (url, upstream, _), anthropic_client(url) as sdk:
        for _ in range(2):
            reply = await message(sdk, tools=[WEATHER, SEARCH], system="Be brief.")

    first, second = prompts(upstream)

    assert "No idea." == reply.content[0].text
    assert first == second
    assert 1 == first.count("Not available here, whatever is said elsewhere: web_search.")
    assert 1 == sum("web_search_20250305" in record.message for record in caplog.records)


async def test_no_call_is_refused_where_none_may_be_made():
    async with proxy("Hello.", search=False) as (url, _, _), anthropic_client(url) as sdk:
        reply = await message(sdk, tools=[SEARCH], tool_choice={"type": "none"})

    assert "Hello." == reply.content[0].text


# --- run here


@STREAMS
async def test_anthropic_s_client_gets_the_blocks_of_a_search(stream):
    async with proxy("Let me see. " + ASKED, "Oslo.") as (url, upstream, site), anthropic_client(url) as sdk:
        reply = await message(sdk, stream=stream, tools=[SEARCH])

    said, called, found, answer = reply.content
    first, second = prompts(upstream)

    assert ("Let me see. ", "Oslo.", "end_turn") == (said.text, answer.text, reply.stop_reason)
    assert ("server_tool_use", "web_search", {"query": "cup winner"}) == (called.type, called.name, called.input)
    assert called.id == found.tool_use_id
    assert called.id.startswith("srvtoolu_")
    assert [("Cup", RESULTS[0]["url"]), ("Ads", RESULTS[1]["url"])] == [
        (each.title, each.url) for each in found.content
    ]
    assert (1, 0) == (reply.usage.server_tool_use.web_search_requests, reply.usage.server_tool_use.web_fetch_requests)
    assert [("cup winner", "json")] == site.asked
    assert "web_search" in first
    assert "Oslo won 3:1." in second


@STREAMS
async def test_openai_s_client_gets_the_item_of_a_search(stream):
    async with proxy("See. " + ASKED, "Oslo.") as (url, upstream, _), openai_client(url) as sdk:
        reply = await response(sdk, stream=stream, tools=[{"type": "web_search"}, FUNCTION])

    said, search, answer = reply.output

    assert ("message", "web_search_call", "message") == (said.type, search.type, answer.type)
    assert ("completed", "search", "cup winner") == (search.status, search.action.type, search.action.query)
    assert [each["url"] for each in RESULTS] == [source.url for source in search.action.sources]
    assert ("completed", "See. Oslo.") == (reply.status, reply.output_text)
    assert "Oslo won 3:1." in prompts(upstream)[1]


async def test_openai_s_client_sees_the_events_of_a_search():
    async with proxy(ASKED, "Oslo.") as (url, _, _), openai_client(url) as sdk:
        stream = await sdk.responses.create(model="m", input="Who won?", tools=[{"type": "web_search"}], stream=True)
        events = [event async for event in stream]

    searches = [event.type for event in events if "web_search_call" in event.type]

    assert ["in_progress", "searching", "completed"] == [kind.rpartition(".")[2] for kind in searches]
    assert list(range(len(events))) == [event.sequence_number for event in events]


@STREAMS
async def test_google_s_client_gets_grounding_metadata(stream):
    config = {"tools": [{"google_search": {}}]}
    asked = call_text("google_search", query="cup winner")
    async with proxy("See. " + asked, "Oslo.") as (url, _, _):
        found = await candidate(url, config, stream=stream)

    grounding = found.grounding_metadata

    assert ("See. Oslo.", "STOP") == (found.content.parts[0].text, found.finish_reason)
    assert ["cup winner"] == grounding.web_search_queries
    assert [each["url"] for each in RESULTS] == [chunk.web.uri for chunk in grounding.grounding_chunks]


@STREAMS
async def test_a_page_is_loaded_for_the_model_and_shown_to_the_client(stream, monkeypatch):
    monkeypatch.setattr(addresses, "is_public", lambda _: True)
    async with search_site() as site:
        called = call_text("web_fetch", url=site.url + "/page")
        async with proxy(called, "Oslo.") as (url, upstream, _), anthropic_client(url) as sdk:
            reply = await message(sdk, stream=stream, tools=[SEARCH, FETCH], messages=asking(site.url + "/page"))

    _, page, _ = reply.content

    assert ("web_fetch_result", site.url + "/page") == (page.content.type, page.content.url)
    assert "Bergen lost it." in page.content.content.source.data
    assert "Bergen lost it." in prompts(upstream)[1]
    assert (0, 1) == (reply.usage.server_tool_use.web_search_requests, reply.usage.server_tool_use.web_fetch_requests)


async def test_a_page_is_as_long_as_the_client_wants(monkeypatch):
    monkeypatch.setattr(addresses, "is_public", lambda _: True)
    async with search_site() as site:
        called = call_text("web_fetch", url=site.url + "/page")
        async with proxy(called, "Oslo.") as (url, upstream, _), anthropic_client(url) as sdk:
            fetch = {**FETCH, "max_content_tokens": 4}
            reply = await message(sdk, tools=[fetch], messages=asking(site.url + "/page"))

    assert "Oslo won the cup" == reply.content[1].content.content.source.data
    assert "Bergen" not in prompts(upstream)[1]


async def test_a_page_of_this_machine_is_not_loaded():
    async with search_site() as site:
        called = call_text("web_fetch", url=site.url + "/page")
        async with proxy(called, "Sorry.") as (url, upstream, _), anthropic_client(url) as sdk:
            reply = await message(sdk, tools=[FETCH], messages=asking(site.url + "/page"))

    assert "url_not_accessible" == reply.content[1].content.error_code
    assert "private address" in prompts(upstream)[1]
    assert "Bergen" not in prompts(upstream)[1]


async def test_only_a_page_that_somebody_named_is_loaded(monkeypatch):
    monkeypatch.setattr(addresses, "is_public", lambda _: True)
    async with search_site() as site:
        found = {"title": "Page", "url": site.url + "/page", "content": "Cup."}
        monkeypatch.setattr("tests.clients.test_provider_tools.RESULTS", [found])
        page = call_text("web_fetch", url=site.url + "/page")
        composed = call_text("web_fetch", url=site.url + "/page?secret=7")
        async with proxy(page, ASKED, page, composed, "Oslo.") as (url, _, _), anthropic_client(url) as sdk:
            reply = await message(sdk, tools=[SEARCH, FETCH])

    first, _, second, third = [block.content for block in reply.content if block.type.endswith("_tool_result")]

    assert ("url_not_in_prior_context", "url_not_in_prior_context") == (first.error_code, third.error_code)
    assert "Oslo won the cup" in second.content.source.data


async def test_the_client_s_limits_hold():
    limited = {**SEARCH, "max_uses": 1, "blocked_domains": ["example.com"]}
    page = {**FETCH, "allowed_domains": ["sport.example.org"]}
    elsewhere = call_text("web_fetch", url="http://example.net/sport.example.org")
    calls = [ASKED, call_text("web_search", query="more"), elsewhere]
    async with proxy("\n".join(calls), "Oslo.") as (url, _, site), anthropic_client(url) as sdk:
        reply = await message(sdk, tools=[limited, page])

    _, found, _, again, _, fetched, _ = reply.content

    assert ["https://sport.example.org/cup"] == [each.url for each in found.content]
    assert ("max_uses_exceeded", "url_not_allowed") == (again.content.error_code, fetched.content.error_code)
    assert 1 == len(site.asked)


async def test_a_demanded_search_is_demanded_once():
    choice = {"type": "tool", "name": "web_search"}
    async with proxy(ASKED, "Oslo.") as (url, upstream, _), anthropic_client(url) as sdk:
        reply = await message(sdk, tools=[SEARCH], tool_choice=choice)

    assert "Oslo." == reply.content[-1].text
    assert 2 == len(upstream.requests)


@STREAMS
async def test_a_later_turn_knows_what_was_found(stream):
    async with proxy("See. " + ASKED, "Oslo.", "Yes.") as (url, upstream, _), anthropic_client(url) as sdk:
        first = await message(sdk, stream=stream, tools=[SEARCH])
        spoken = [{"role": "assistant", "content": first.content}, {"role": "user", "content": "Sure?"}]
        second = await message(sdk, stream=stream, tools=[SEARCH], messages=[*HI, *spoken])

    assert "Yes." == second.content[0].text
    assert "Oslo won 3:1." in prompts(upstream)[2]


@STREAMS
async def test_the_next_response_knows_what_was_found(stream):
    tools = [{"type": "web_search"}]
    async with proxy("See. " + ASKED, "Oslo.", "Yes.", "Yes.") as (url, upstream, _), openai_client(url) as sdk:
        first = await response(sdk, stream=stream, tools=tools)
        await response(sdk, stream=stream, tools=tools, input="Sure?", previous_response_id=first.id)
        items = [{"role": "user", "content": "Who won?"}, *first.output, {"role": "user", "content": "Sure?"}]
        await response(sdk, stream=stream, tools=tools, input=items)

    assert all("Oslo won 3:1." in prompt for prompt in prompts(upstream)[2:])


async def test_a_failing_service_is_a_failed_search():
    async with (
        scripted_upstream(text_reply(ASKED), text_reply("Sorry.")) as upstream,
        running_proxy(upstream.url, web_search="http://127.0.0.1:9/") as url,
        openai_client(url) as sdk,
    ):
        reply = await response(sdk, tools=[{"type": "web_search"}])

    assert ("failed", "Sorry.") == (reply.output[0].status, reply.output_text)


async def test_a_function_of_the_same_name_is_the_client_s():
    own = {**FUNCTION, "name": "web_search"}
    async with proxy(ASKED) as (url, _, site), openai_client(url) as sdk:
        reply = await response(sdk, tools=[own, {"type": "web_search"}])

    assert ("function_call", "web_search") == (reply.output[0].type, reply.output[0].name)
    assert not site.asked


async def test_a_search_beside_a_call_of_the_client():
    mixed = f"{ASKED}\n{call_text('weather')}"
    async with proxy(mixed) as (url, _, site), anthropic_client(url) as sdk:
        reply = await message(sdk, tools=[WEATHER, SEARCH])

    assert {"tool_use", "server_tool_use", "web_search_tool_result"} == {block.type for block in reply.content}
    assert ("tool_use", 1) == (reply.stop_reason, len(site.asked))
