"""While a real engine reads a long prompt, people see how far it is: in streams, in Python, in the inspector."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fcshim import Client
from tests.engine.llama_server import LlamaServer, running
from tests.engine.process import free_port
from tests.engine.proxy import proxying
from tests.engine.random_models import write_random_model
from tests.engine.vocabulary import sentencepiece_vocabulary

TOOL = {"name": "get_weather", "description": "Look it up.", "parameters": {"type": "object", "properties": {}}}
CHAT_TOOL = {"type": "function", "function": TOOL}
PROMPT = "The weather is a book. " * 400
COMMENT = re.compile(r"^: ([\d,]+) of ([\d,]+) tokens of the prompt read, \d+ s(?:, about \d+ s left)?$")
CONTEXT = 8192


@pytest.fixture(scope="module")
def slow_server(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """A server that reads 64 tokens at a time."""
    folder = tmp_path_factory.mktemp("progress")
    model = folder / "random.gguf"
    write_random_model(model, sentencepiece_vocabulary())
    with running(program, model, folder, "--batch-size", "64", "--no-cache-prompt", context=CONTEXT) as server:
        yield server


def chat_body(prompt: str, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": 4, "stream": True, **fields}


BODIES = [
    ("/v1/chat/completions", chat_body(PROMPT, tools=[CHAT_TOOL])),
    ("/v1/chat/completions", chat_body(PROMPT, tools=[CHAT_TOOL], tool_choice="required")),
    ("/v1/responses", {"model": "m", "input": PROMPT, "stream": True, "tools": [{"type": "function", **TOOL}]}),
    (
        "/v1/messages",
        {
            **chat_body(PROMPT),
            "tools": [{"name": TOOL["name"], "input_schema": TOOL["parameters"]}],
        },
    ),
]


@pytest.mark.parametrize(("path", "body"), BODIES, ids=["chat", "grammar", "responses", "messages"])
def test_comments_in_a_stream_say_how_much_was_read(
    slow_server: LlamaServer, tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    with proxying(slow_server.url, tmp_path) as url:
        reply = httpx.post(url + path, json={**body, "max_output_tokens": 4}, trust_env=False, timeout=60)
    lines = reply.text.splitlines()
    found = [match for line in lines if (match := COMMENT.match(line))]
    read = [int(match[1].replace(",", "")) for match in found]

    assert 200 == reply.status_code
    assert len(read) >= 4
    assert read == sorted(read)
    assert {found[-1][2]} == {match[2] for match in found}
    assert read[-1] >= int(found[-1][2].replace(",", "")) - 64
    if path != "/v1/messages":  # whose pings are events
        assert found[-1][0] == [line for line in lines if line][len(found) - 1]  # all of them before the first event


def test_a_prompt_that_does_not_fit_still_has_its_status(slow_server: LlamaServer, tmp_path: Path) -> None:
    with proxying(slow_server.url, tmp_path) as url:
        body = chat_body(PROMPT * 8, tools=[CHAT_TOOL])
        reply = httpx.post(f"{url}/v1/chat/completions", json=body, trust_env=False, timeout=60)

    assert 400 == reply.status_code


@pytest.mark.parametrize("path", ["/api/chat", "/v1beta/models/m:streamGenerateContent"])
def test_apis_without_comments_get_none(slow_server: LlamaServer, tmp_path: Path, path: str) -> None:
    contents = {"contents": [{"role": "user", "parts": [{"text": PROMPT}]}]} if "beta" in path else chat_body(PROMPT)
    with proxying(slow_server.url, tmp_path) as url:
        reply = httpx.post(url + path, json=contents, trust_env=False, timeout=60)

    assert 200 == reply.status_code
    assert "tokens of the prompt" not in reply.text


async def test_a_python_program_sees_the_progress(slow_server: LlamaServer) -> None:
    seen = set()

    async def watch(stream) -> None:
        while True:
            await asyncio.sleep(0)
            seen.add(stream.progress)

    async with Client(slow_server.url) as client, client.stream(PROMPT, [CHAT_TOOL], max_tokens=4) as stream:
        watching = asyncio.create_task(watch(stream))
        async for _ in stream:
            pass
        watching.cancel()
        estimate = stream.prompt_tokens
    reports = sorted(report.processed for report in seen if report is not None)

    assert None in seen
    assert len(reports) >= 2
    assert 1_000 < estimate < 10_000


def test_the_inspector_shows_the_progress_of_running_requests(slow_server: LlamaServer, tmp_path: Path) -> None:
    port = free_port()
    shown: list[str] = []
    with (
        proxying(slow_server.url, tmp_path, "--inspect", "--inspect-port", str(port)) as url,
        httpx.Client(trust_env=False, timeout=60) as client,
    ):
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                page = httpx.get(f"http://127.0.0.1:{port}/fcshim/api/requests", trust_env=False, timeout=60)
                shown.extend(each["reading"] for each in json.loads(page.text)["requests"])

        watching = threading.Thread(target=watch)
        watching.start()
        for _ in range(5):
            client.post(f"{url}/v1/chat/completions", json=chat_body(PROMPT, tools=[CHAT_TOOL])).raise_for_status()
        done.set()
        watching.join()

    assert [each for each in shown if COMMENT.match(f": {each}")]
