"""What `fcshim serve` writes when it starts."""

import asyncio
import functools
import io
import logging
import re
import sys

import pytest

from fcshim.config import Config, Secret
from fcshim.server.banner import own_url, show_banner
from fcshim.server.status_page import client_lines
from fcshim.upstream import upstream_for
from fcshim.upstream.capabilities import Capabilities
from fcshim.upstream.model_report import model_reports
from tests.engine.process import free_port
from tests.scripted import HANG, Script, scripted_upstream
from tests.server.proxy import http_client
from tests.server.test_run import answers
from tests.server.test_status_page import listing

URL = "http://127.0.0.1:8181"
INSPECTOR_URL = "http://127.0.0.1:8183"


@pytest.fixture
def banner_of(monkeypatch, caplog):
    """Return a function that runs the banner with settings, and returns what it wrote and warned."""

    async def show(upstream, **settings):
        out = io.StringIO()
        monkeypatch.setattr(sys, "stderr", out)
        config = Config(upstream=upstream, **settings)
        async with upstream_for(config) as endpoint:
            capabilities = Capabilities(endpoint)
            reports = functools.partial(model_reports, config, capabilities)
            await show_banner(config, capabilities, reports, URL, INSPECTOR_URL)
        return out.getvalue(), caplog.text

    caplog.set_level(logging.INFO, "fcshim.server")
    return show


async def test_it_shows_the_server_how_each_model_is_asked_and_a_line_for_each_client(banner_of):
    async with scripted_upstream(listing=listing("qwen3-8b", "gemma-2b")) as upstream:
        text, warned = await banner_of(upstream.url)
    head, *lines = text.splitlines()

    assert re.fullmatch(rf"fcshim \S+ in front of vllm at {upstream.url}/v1", head)
    assert [
        ["model", "tools", "dialect", "profile", "reason"],
        ["qwen3-8b", "native", "hermes", "default", "its server is vllm"],
    ] == [re.split(" {2,}", line.strip()) for line in lines[:2]]
    assert "no-system" == lines[2].split()[3]
    assert [line for _, line in client_lines(URL, "none")] == [re.split(" {2,}", line)[-1] for line in lines[4:]]
    assert "" == warned


async def test_names_cannot_write_to_the_terminal_nor_forge_a_line(banner_of):
    async with scripted_upstream(listing=listing("a\x1b[2J\nforged \u202e")) as upstream:
        text, _ = await banner_of(upstream.url)

    assert "a␛[2J␊forged �" in text
    assert not any(line.startswith("forged") for line in text.splitlines())


async def test_an_upstream_that_does_not_answer_is_a_warning(banner_of):
    text, warned = await banner_of("http://127.0.0.1:9")

    assert "http://127.0.0.1:9/v1 does not list its models: cannot connect" in warned
    assert f"OPENAI_BASE_URL={URL}/v1" in text


async def test_an_upstream_that_hangs_is_a_warning(banner_of, monkeypatch):
    monkeypatch.setattr("fcshim.server.banner._TIME_LIMIT", 0.1)
    async with scripted_upstream(listing=Script((HANG,))) as upstream:
        _, warned = await banner_of(upstream.url)

    assert "no answer within 0.1 s; serving anyway" in warned


async def test_a_long_list_of_models_is_shortened(banner_of):
    async with scripted_upstream(listing=listing(*(f"m{at}" for at in range(25)))) as upstream:
        text, _ = await banner_of(upstream.url)

    assert "m19" in text
    assert "m20" not in text
    assert "  and 5 more: fcshim models\n" in text


async def test_keys_are_not_shown(banner_of):
    text, warned = await banner_of("http://127.0.0.1:9", api_keys=(Secret("secret-key"),))

    assert "OPENAI_API_KEY=KEY" in text
    assert "secret-key" not in text + warned


async def test_it_shows_where_requests_can_be_inspected(banner_of):
    everything = {"inspect": True, "metrics": True, "record": "records"}
    text, _ = await banner_of("http://127.0.0.1:9", **everything)
    of_worker, _ = await banner_of("http://127.0.0.1:9", workers=2, record="records/worker-0")
    nothing, _ = await banner_of("http://127.0.0.1:9")

    assert f"requests are shown at {INSPECTOR_URL}/fcshim/\nmetrics for Prometheus are at {URL}/metrics\n" in text
    assert "requests are recorded in records\n" in text
    assert "requests are recorded in records\n" in of_worker
    assert not any(word in nothing for word in ("shown", "Prometheus", "recorded"))


@pytest.mark.parametrize(("level", "banner"), [(logging.WARNING, False), (logging.INFO, True)])
async def test_the_level_of_the_log_decides_whether_it_is_written(level, banner, banner_of, caplog):
    caplog.set_level(level, "fcshim.server")
    text, warned = await banner_of("http://127.0.0.1:9")

    assert (banner, True) == ("OPENAI_BASE_URL" in text, "does not list its models" in warned)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("0.0.0.0", "http://127.0.0.1:1"),
        ("::", "http://[::1]:1"),
        ("gpu.example", "http://gpu.example:1"),
    ],
)
def test_the_url_is_one_that_clients_here_can_use(host, url):
    assert url == own_url(host, 1)


@pytest.mark.engine
async def test_a_proxy_in_front_of_nothing_starts_warns_and_serves():
    port = free_port()
    command = (sys.executable, "-m", "fcshim", "serve", "http://127.0.0.1:9", "--port", str(port))
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(60):
            written = ""
            while "OLLAMA_HOST" not in written:
                written += (await process.stderr.readline()).decode()
            served = await answers(f"http://127.0.0.1:{port}")
            async with http_client(f"http://127.0.0.1:{port}") as client:
                listed = await client.get("/v1/models")
    finally:
        process.terminate()
        await process.communicate()

    assert "WARNING" in written
    assert f"export OPENAI_BASE_URL=http://127.0.0.1:{port}/v1 OPENAI_API_KEY=none" in written
    assert (True, 502) == (served, listed.status_code)
