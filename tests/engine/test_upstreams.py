"""One proxy in front of two real engines: routing, an engine that dies, reloads under load."""

import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path

import httpx
import pytest

from tests.engine.conftest import TINY
from tests.engine.llama_server import LlamaServer, running
from tests.engine.process import free_port
from tests.server.test_reload import reload_under_streams

SETTINGS = """
[upstreams.first]
url = "{first}"
failures = 2
[upstreams.second]
url = "{second}"
[models.only-second]
upstream = "second"
[models."*"]
upstream = {order}
"""


@pytest.fixture
def engines(program: Path, tmp_path: Path):
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.ExitStack())
        servers = [
            each.enter_context(running(program, TINY, tmp_path, "--temp", "0", "--alias", name))
            for each, name in ((first, "tiny-a"), (stack, "tiny-b"))
        ]
        yield servers, first.close


@contextlib.asynccontextmanager
async def serving(file: Path, *options: str):
    """Run `fcshim serve` with the file; yield its process, its log and a client."""
    port = free_port()
    command = (sys.executable, "-m", "fcshim", "serve", "--config", str(file), "--port", str(port), *options)
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        await line_with(process, b"serving http")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:
            yield process, client
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_with(process, words: bytes) -> None:
    async with asyncio.timeout(60):
        while words not in await process.stderr.readline():
            pass


def write(file: Path, servers: list[LlamaServer], *order: str) -> None:
    first, second = (server.url for server in servers)
    file.write_text(SETTINGS.format(first=first, second=second, order=json.dumps(list(order))))


async def ask(client: httpx.AsyncClient, model: str, **fields: object) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "Say hello"}], "max_tokens": 8, **fields}
    return await client.post("/v1/chat/completions", json=body)


async def health(client: httpx.AsyncClient) -> dict[str, str]:
    upstreams = (await client.get("/ready")).json()["upstreams"]
    return {name: report["state"] for name, report in upstreams.items()}


async def test_the_second_engine_takes_over_when_the_first_dies(engines, tmp_path):
    servers, kill_first = engines
    file = tmp_path / "fcshim.toml"
    write(file, servers, "first", "second")
    async with serving(file) as (_, client):
        listed = [row["id"] for row in (await client.get("/v1/models")).json()["data"]]
        by_first, by_second = [(await ask(client, name)).json()["model"] for name in ("any", "only-second")]
        kill_first()
        after = [await ask(client, "any") for _ in range(3)]
        states = await health(client)

    assert {"tiny-a", "tiny-b", "only-second"} == set(listed)
    assert ("tiny-a", "tiny-b") == (by_first, by_second)
    assert [(200, "tiny-b")] * 3 == [(reply.status_code, reply.json()["model"]) for reply in after]
    assert {"first": "open", "second": "ok"} == states


async def test_a_signal_and_a_changed_file_move_new_requests_and_leave_the_stream(engines, tmp_path):
    servers, _ = engines
    file = tmp_path / "fcshim.toml"
    write(file, servers, "first")
    async with serving(file, "--watch") as (process, client):
        body = {"model": "m", "stream": True, "max_tokens": 400, "messages": [{"role": "user", "content": "Count"}]}
        async with client.stream("POST", "/v1/chat/completions", json=body) as reply:
            lines = reply.aiter_lines()
            await anext(lines)
            file.write_text("models = nonsense")
            process.send_signal(signal.SIGHUP)
            await line_with(process, b"the settings stay as they are")
            kept = (await ask(client, "m")).json()["model"]
            write(file, servers, "second")
            await line_with(process, b"the settings were loaded again")
            moved = (await ask(client, "m")).json()["model"]
            rest = [line async for line in lines if line]

    assert ("tiny-a", "tiny-b") == (kept, moved)
    assert "data: [DONE]" == rest[-1]


async def test_a_hundred_streams_survive_twenty_reloads():
    await reload_under_streams(streams=100, reloads=20)
