"""The endpoint of a command: given as URL, or found on this machine."""

import asyncio
import contextlib
import json
from urllib.parse import urlsplit

import pytest

from fcshim.cli import endpoint, main
from fcshim.config import Secret
from tests.scripted import HANG, Script, model_list, scripted_upstream
from tests.server.proxy import running_proxy

COMMANDS = ("serve", "models", "doctor", "eval")
OLLAMA = {"/v1/models": model_list("qwen3"), "/api/version": Script((b'{"version":"0.9.0"}',))}


def port_of(url):
    return urlsplit(url).port


@pytest.fixture
def look_at(monkeypatch):
    """Return a function that limits the search to the ports of these URLs; nothing else names an endpoint."""
    monkeypatch.delenv("FCSHIM_UPSTREAM", raising=False)
    monkeypatch.delenv("FCSHIM_CONFIG", raising=False)
    return lambda *urls: monkeypatch.setattr(endpoint, "PORTS", tuple(map(port_of, urls)))


async def run(*arguments):
    return await asyncio.to_thread(main, list(arguments))


async def test_the_only_server_is_used_and_named(look_at, capfd):
    async with scripted_upstream(pages={"/v1/models": model_list("gemma-2b")}) as upstream:
        look_at(upstream.url, "http://127.0.0.1:9")
        code = await run("models", "--json")
    out, err = capfd.readouterr()

    assert (0, ["gemma-2b"]) == (code, [row["model"] for row in json.loads(out)])
    assert f"fcshim: found {upstream.url}  (generic: gemma-2b)\n" == err


@pytest.mark.parametrize("command", COMMANDS)
async def test_of_several_servers_one_must_be_named(command, look_at, capfd):
    async with (
        scripted_upstream(pages={"/v1/models": model_list("a\x1b[2J", "b", "c", "d")}) as first,
        scripted_upstream(pages=OLLAMA) as second,
    ):
        look_at(first.url, second.url)
        code = await run(command)
    head, *listed = capfd.readouterr().err.splitlines()

    assert 2 == code
    assert head.startswith("fcshim: several model servers run on this machine; name the URL of one:")
    assert [f"  {first.url}  (generic: a␛[2J, b, c and 1 more)", f"  {second.url}  (ollama: qwen3)"] == listed


@pytest.mark.parametrize("command", COMMANDS)
async def test_without_a_server_it_says_what_was_tried_and_how_to_start_one(command, look_at, capfd):
    look_at("http://127.0.0.1:9", "http://127.0.0.1:7")
    code = await run(command)
    err = capfd.readouterr().err

    assert 1 == code
    assert "tried the ports 9, 7" in err
    assert "`llama-server -m model.gguf --port 8080`" in err
    assert 1 == err.count("\n")


@pytest.mark.parametrize("keys", [(), (Secret("k"),)], ids=["open", "with a key"])
async def test_our_own_proxy_is_not_found(keys, look_at):
    async with (
        scripted_upstream(pages={"/v1/models": model_list("m")}) as upstream,
        running_proxy(upstream.url, api_keys=keys) as url,
    ):
        look_at(url, upstream.url)

        assert [upstream.url] == [found.url for found in await endpoint.find_servers()]


@pytest.mark.parametrize(
    ("listed", "kind"),
    [
        (Script((b'{"error":{"message":"Invalid API Key"}}',), 401), "a server that needs --upstream-key"),
        (Script((b'{"object":"list","data":[]}',)), "generic"),
        (Script((b"",), 403), None),
        (Script((b"<html>hello</html>",)), None),
        (Script((b'{"error":"not found"}',), 404), None),
        (Script((b'["data"]',)), None),
        (Script((b"[" * 100_000,)), None),
        (Script((HANG,)), None),
    ],
)
async def test_only_what_lists_models_or_asks_for_a_key_is_a_model_server(listed, kind, look_at):
    async with scripted_upstream(pages={"/v1/models": listed}) as upstream:
        look_at(upstream.url)
        found = await endpoint.find_servers()

    assert ([] if kind is None else [kind]) == [server.kind for server in found]


async def test_no_key_is_sent_to_a_server_that_nobody_named(look_at, monkeypatch):
    seen = []

    async def handle(reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    monkeypatch.setenv("FCSHIM_UPSTREAM_KEY", "secret-key")
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        look_at(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        code = await run("models")

    assert 1 == code
    assert seen
    assert not any(b"secret-key" in head for head in seen)


@pytest.mark.parametrize("where", ["flag", "variable", "file"])
async def test_a_named_endpoint_is_never_replaced(where, look_at, monkeypatch, tmp_path, capfd):
    async with scripted_upstream(pages={"/v1/models": model_list("m")}) as upstream:
        look_at(upstream.url)
        options = ()
        if where == "flag":
            options = ("--upstream", "http://127.0.0.1:9")
        elif where == "variable":
            monkeypatch.setenv("FCSHIM_UPSTREAM", "http://127.0.0.1:9")
        else:
            file = tmp_path / "fcshim.toml"
            file.write_text('upstream = "http://127.0.0.1:9"\n', "utf-8")
            options = ("--config", str(file))
        code = await run("models", *options)

    assert 1 == code
    assert "found" not in capfd.readouterr().err
    assert [] == upstream.page_paths


@pytest.mark.parametrize("command", ["serve", "models"])
async def test_the_url_and_the_flag_exclude_each_other(command, capfd):
    assert 2 == await run(command, "http://127.0.0.1:8080", "--upstream", "http://127.0.0.1:9")
    assert "expected the URL or --upstream, not both" in capfd.readouterr().err


async def test_a_url_needs_no_scheme(capfd):
    async with scripted_upstream(model_list("m")) as upstream:
        code = await run("models", upstream.url.removeprefix("http://"))

    assert (0, True) == (code, "m " in capfd.readouterr().out)
