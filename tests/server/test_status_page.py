"""The page for browsers at `/`."""

import base64
import hashlib
import html
import json
import re

import pytest

from fcshim.codecs.routes import CODECS
from fcshim.config import ModelOverrides, Secret
from fcshim.server.status_page import CLIENTS, client_lines
from tests.scripted import Script, scripted_upstream
from tests.server.proxy import http_client, running_proxy

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
HOSTILE = "</code><script>alert(1)</script>"


def listing(*names, owner="vllm"):
    entries = [{"id": name, "object": "model", "owned_by": owner} for name in names]
    return Script((json.dumps({"object": "list", "data": entries}).encode(),))


async def page(names=("qwen3-8b",), *, headers=BROWSER, method="GET", **settings):
    """Return the answer of a proxy in front of a server with these models."""
    async with (
        scripted_upstream(listing=listing(*names)) as upstream,
        running_proxy(upstream.url, **settings) as url,
        http_client(url) as client,
    ):
        return await client.request(method, "/", headers=headers), url


async def test_it_shows_the_server_how_models_are_asked_and_one_line_for_each_client():
    response, url = await page(models={"gpt-9": ModelOverrides(upstream_model="qwen3-8b")})
    text = html.unescape(response.text)

    assert (200, "text/html; charset=utf-8") == (response.status_code, response.headers["content-type"])
    assert "In front of vllm" in text
    assert re.search(r"qwen3-8b</code></td><td>native \(its server is vllm\)</td><td>hermes</td>", text)
    assert "gpt-9" in text
    assert all(f"<pre>{line}</pre>" in text for _, line in client_lines(url, "none"))


def test_every_client_api_has_a_line():
    assert set(CODECS) == set(CLIENTS)


async def test_what_others_write_is_text():
    response, _ = await page([HOSTILE, 'a"b'])

    assert "<script" not in response.text
    assert html.escape(HOSTILE) in response.text


async def test_the_browser_may_load_and_run_nothing():
    response, _ = await page()
    policy = response.headers["content-security-policy"]

    style = re.search("<style>(.*)</style>", response.text)[1]

    assert f"style-src 'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert {"nosniff", "no-referrer", "no-store"} <= set(response.headers.values())


async def test_a_line_to_copy_has_no_other_host_than_a_host():
    response, _ = await page(headers={**BROWSER, "Host": "a;rm -rf"}, host="127.0.0.1", allowed_hosts=("a;rm -rf",))

    assert "rm -rf" not in response.text
    assert "OLLAMA_HOST=http://127.0.0.1:" in response.text


async def test_an_upstream_that_cannot_be_reached_is_reported():
    async with running_proxy("http://127.0.0.1:9") as url, http_client(url) as client:
        response = await client.get("/", headers=BROWSER)

    assert 200 == response.status_code
    assert "a server that does not answer" in response.text
    assert "cannot" in response.text


async def test_a_long_list_is_cut():
    response, _ = await page([f"model-{at}" for at in range(250)])

    assert "And 50 more" in response.text


async def test_ollamas_clients_still_get_its_word_and_head_has_no_body():
    plain, _ = await page(headers={"Accept": "*/*"})
    head, _ = await page(method="HEAD")

    assert "Ollama is running" == plain.text
    assert (200, "", "text/html; charset=utf-8") == (head.status_code, head.text, head.headers["content-type"])


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 200), ("0.0.0.0", 401)])
async def test_it_needs_a_key_where_others_reach_it(host, status):
    async with (
        scripted_upstream(listing=listing("m")) as upstream,
        running_proxy(upstream.url, host=host, api_keys=(Secret("k"),)) as url,
        http_client(url.replace("0.0.0.0", "127.0.0.1")) as client,
    ):
        response = await client.get("/", headers=BROWSER)
        known = await client.get("/", headers={**BROWSER, "Authorization": "Bearer k"})

    assert (status, 200) == (response.status_code, known.status_code)
    assert "OPENAI_API_KEY=KEY" in known.text
