"""`fcshim models`."""

import asyncio
import json

import pytest

from tests.cli.command import fcshim
from tests.prompt.custom_dialects import SOUND, make_folder
from tests.scripted import Script, llama_server_with_tools, model_list, scripted_upstream, text_reply
from tests.server.proxy import CALL, CHAT, chat_body, http_client, running_proxy
from tests.server.raw_upstream import fixed_reply, raw_upstream

REFUSAL = Script((b'{"error":{"message":"tools param requires --jinja flag"}}',), status=500)


async def run_models(*arguments):
    """Run the command in a thread, because the scripted upstream runs in this event loop."""
    return await asyncio.to_thread(fcshim, "models", *arguments)


async def test_the_models_of_an_endpoint_are_listed_as_a_table():
    async with scripted_upstream(pages={"/v1/models": model_list("gemma-2b", "qwen3")}) as upstream:
        outcome = await run_models("--upstream", upstream.url)

    head, gemma, qwen = [line.split() for line in outcome.out.splitlines()]

    assert ["model", "tools", "dialect", "profile", "reason"] == head
    assert ("gemma-2b", "prompt", "no-system") == (gemma[0], gemma[1], gemma[3])
    assert ("qwen3", "prompt", "default") == (qwen[0], qwen[1], qwen[3])
    assert (0, "") == (outcome.code, outcome.err)


async def test_a_refused_key_says_where_the_key_is_set():
    async with scripted_upstream(Script((b"{}",), status=401)) as upstream:
        outcome = await run_models(upstream.url)

    message = (
        "fcshim: the upstream refused fcshim's API key (HTTP 401): set it with --upstream-key, FCSHIM_UPSTREAM_KEY"
    )
    assert 1 == outcome.code
    assert outcome.err.startswith(message)


@pytest.mark.parametrize("body", [b"<html>hello</html>", b'{"data": []}'])
async def test_an_address_without_models_is_an_error(body):
    async with scripted_upstream(Script((body,))) as upstream:
        outcome = await run_models(upstream.url)

    message = f"fcshim: {upstream.url} lists no models. Is this the address of the API, and is a model loaded there?\n"
    assert (1, "", message) == (outcome.code, outcome.out, outcome.err)


@pytest.mark.model_pages
async def test_auto_asks_for_the_capabilities_of_each_model(tmp_path):
    listed = Script((b'{"models":[{"model":"a"},{"model":"b"}]}',))

    def respond(asked):
        if asked.method == "GET":
            return listed
        capabilities = ["tools"] if asked.body == {"model": "a"} else ["completion"]
        return Script((json.dumps({"modelfile": "FROM x", "capabilities": capabilities}).encode(),))

    settings = tmp_path / "fcshim.toml"
    settings.write_text('[models."c"]\nupstream_model = "a"\ndialect = "hermes"\n[models."d*"]\nupstream_model = "a"\n')
    async with scripted_upstream(respond=respond) as upstream:
        options = ("--upstream", upstream.url, "--upstream-api", "ollama", "--config", settings)
        rows = json.loads((await run_models(*options, "--json")).out)

    assert {"a": "native", "b": "prompt", "c": "prompt"} == {row["model"]: row["tools"] for row in rows}
    assert ["its server supports tools for it", "its server does not support tools for it", "the settings"] == [
        row["tools_reason"] for row in rows
    ]
    assert "hermes" == rows[2]["dialect"]


async def test_a_dialect_that_cannot_be_constrained_is_noted(tmp_path):
    folder = make_folder(tmp_path / "mine", SOUND["json_encoded_arguments"])
    async with scripted_upstream(pages={"/v1/models": model_list("a", "b")}) as upstream:
        options = ("--upstream", upstream.url, "--dialect", str(folder))
        table = await run_models(*options)
        rows = json.loads((await run_models(*options, "--json")).out)
        unconstrained = json.loads((await run_models(*options, "--json", "--constrain", "off")).out)

    assert table.out.splitlines()[-1].startswith("note: calls in the dialect 'mine' cannot be constrained")
    known = {"model", "tools", "tools_reason", "dialect", "reason", "profile"}

    assert {*known, "note"} == set(rows[0])
    assert known == set(unconstrained[0])


@pytest.mark.model_pages
async def test_a_running_proxy_reports_what_it_has_learned():
    async with (
        llama_server_with_tools(REFUSAL, text_reply(CALL)) as upstream,
        running_proxy(upstream.url) as url,
    ):
        async with http_client(url) as client:
            await client.post(CHAT, json=chat_body())
        outcome = await run_models("--of", url)

    assert ["m", "prompt"] == outcome.out.splitlines()[1].split()[:2]


@pytest.mark.parametrize("option", ["--of", "--upstream"])
async def test_an_unreachable_endpoint_is_a_failure(option):
    outcome = await run_models(option, "http://127.0.0.1:9")

    assert (1, "") == (outcome.code, outcome.out)
    assert outcome.err.startswith("fcshim: cannot")


async def test_the_models_of_several_upstreams_say_whose_they_are_and_which_is_away(tmp_path):
    file = tmp_path / "fcshim.toml"
    async with scripted_upstream(listing=model_list("x", "a")) as a, scripted_upstream(listing=model_list("x")) as b:
        away = "http://127.0.0.1:9"
        sections = {"one": a.url, "two": b.url, "away": away}
        file.write_text("".join(f'[upstreams.{name}]\nurl = "{url}"\n' for name, url in sections.items()))
        outcome = await run_models("--config", file)

    rows = [line.split() for line in outcome.out.splitlines()]

    assert ["model", "tools", "dialect", "profile", "upstream", "reason"] == rows[0]
    assert [("one/x", "one"), ("a", "one"), ("two/x", "two")] == [(row[0], row[4]) for row in rows[1:4]]
    assert "note: away: cannot connect to the upstream at 127.0.0.1:9" in outcome.out
    assert (0, "") == (outcome.code, outcome.err)


@pytest.mark.parametrize("status", [404, 200])
async def test_a_server_that_is_no_proxy_is_named_instead_of_its_answer(status):
    body = b'{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'
    async with raw_upstream(fixed_reply(status, body)) as server:
        outcome = await run_models("--of", server.url)

    assert (1, "") == (outcome.code, outcome.out)
    assert f"{server.url} is not an fcshim proxy: /fcshim/models answered HTTP {status}" in outcome.err
    assert "leave out --of" in outcome.err
    assert "File Not Found" not in outcome.err
