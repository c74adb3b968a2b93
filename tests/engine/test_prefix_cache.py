"""In a long conversation llama-server evaluates only new tokens; its prefix cache has the rest of each prompt.

Each request adds the result of the last call and a user turn, and the model has to call again.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine.conftest import TINY
from tests.engine.llama_server import LlamaServer, running
from tests.engine.proxy import proxying

TURNS = 20
SEAM = 2
"""Tokens at the end of a prompt that may be tokenized differently together with the reply."""
UNREAD = 1
"""The token that ended the reply: the engine has sampled it, but not evaluated it."""
CONTEXT = 4096


def tool(name: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer"}},
    }
    return {"type": "function", "function": {"name": name, "description": f"To {name}.", "parameters": schema}}


NAMES = ["get_weather", "book_hotel", "find_train", "rent_bike", "draw_map", "call_taxi"]
TOOLS = [tool(name) for name in NAMES]


@pytest.fixture(scope="module")
def server(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """One slot: with more, the engine may choose one that does not have the conversation cached."""
    options = ("--temp", "0", "--parallel", "1", "--ctx-size", str(CONTEXT))
    with running(program, TINY, tmp_path_factory.mktemp("prefix"), *options) as server:
        yield server


def converse(url: str) -> Iterator[dict[str, Any]]:
    """Yield the usage of every reply."""
    messages: list[dict[str, Any]] = []
    body = {"model": "tiny", "tools": TOOLS, "tool_choice": "required", "max_tokens": 100}
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        for turn in range(TURNS):
            command = f"call {NAMES[turn // 4]} with city=Paris, days={turn}"
            messages.append({"role": "user", "content": command})
            reply = client.post("/v1/chat/completions", json={**body, "messages": messages}).raise_for_status().json()
            yield reply["usage"]
            message = reply["choices"][0]["message"]
            (call,) = message["tool_calls"]
            messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": f"{turn} of {command}"}]


OPTIONS = ["", "--max-tools 2", "--tools-style signature", "--profile no-system", "--profile reminded"]


@pytest.mark.parametrize("options", OPTIONS)
def test_only_the_new_tokens_of_a_prompt_are_evaluated(server: LlamaServer, tmp_path: Path, options: str) -> None:
    with proxying(server.url, tmp_path, *options.split()) as url:
        usages = list(converse(url))
    seen = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]

    for before, cached in zip(usages, seen[1:], strict=False):
        assert cached >= before["prompt_tokens"] - SEAM
    # A reply is evaluated again from where its text tokenizes differently from the sampled tokens. This model samples
    # such tokens once the conversation is longer than its training; until then its replies are cached, too.
    whole = [cached >= before["total_tokens"] - UNREAD for before, cached in zip(usages, seen[1:], strict=False)]
    assert all(whole[: TURNS // 4])
    assert usages[-1]["total_tokens"] < CONTEXT
