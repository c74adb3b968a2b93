"""LiteLLM's proxy in front of fcshim, with the settings of its recipe; the upstream supports text only."""

import asyncio
import contextlib
import json
import os
import socket

import openai
import pytest

from tests.clients.environments import CACHE, missing
from tests.clients.programs import programs
from tests.clients.text_only import check_text_only
from tests.engine.process import free_port
from tests.mcp.server_programs import eventually
from tests.scripted import model_list, scripted_upstream, text_reply
from tests.server.proxy import CALL, running_proxy

KEY = "sk-none"
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    },
}


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.asynccontextmanager
async def litellm_front(proxy, folder):
    """Run LiteLLM's proxy with the recipe's settings; yield the base URL of its Chat API."""
    (settings,) = programs("docs/recipes/litellm.md", "yaml")
    (folder / "config.yaml").write_text(settings.replace("http://127.0.0.1:8181", proxy), encoding="utf-8")
    port = free_port()
    own = {"LITELLM_MASTER_KEY": KEY, "HOME": str(folder), "NO_PROXY": "127.0.0.1", "LITELLM_LOCAL_MODEL_COST_MAP": "1"}
    with (folder / "front.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(CACHE / "litellm" / "bin" / "litellm", "--config", folder / "config.yaml"),
            *("--host", "127.0.0.1", "--port", str(port)),
            env={**os.environ, **own},
            stdout=log,
            stderr=log,
        )
        try:
            await eventually(lambda: is_listening(port), seconds=240)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            await process.wait()


async def ask(sdk, messages, *, stream):
    """Return the text and the calls of one reply."""
    reply = await sdk.chat.completions.create(model="local", messages=messages, tools=[TOOL], stream=stream)
    if not stream:
        message = reply.choices[0].message
        return message.content, [
            (call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()
        ]
    text, calls = "", {}
    async for chunk in reply:
        for delta in (choice.delta for choice in chunk.choices):
            text += delta.content or ""
            for part in delta.tool_calls or ():
                id_, name, arguments = calls.get(part.index, ("", "", ""))
                calls[part.index] = (id_ or part.id, name or part.function.name, arguments + part.function.arguments)
    return text or None, list(calls.values())


async def test_a_tool_is_called_and_its_result_answered(tmp_path):
    if problem := missing("litellm"):
        pytest.skip(problem)
    scripts = [text_reply("Let me. ", *CALL), text_reply("It is 3.")] * 2
    async with (
        scripted_upstream(*scripts, listing=model_list("m")) as upstream,
        running_proxy(upstream.url, limit=300) as proxy,
        litellm_front(proxy, tmp_path) as url,
        openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as sdk,
    ):
        for stream in (True, False):
            messages = [{"role": "user", "content": "What is 1 + 2?"}]
            text, [(call_id, name, arguments)] = await ask(sdk, messages, stream=stream)
            call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            said = {"role": "assistant", "content": text, "tool_calls": [call]}
            messages += [said, {"role": "tool", "tool_call_id": call_id, "content": "3"}]
            answer = await ask(sdk, messages, stream=stream)

            assert ("add", {"a": 1, "b": 2}) == (name, json.loads(arguments))
            assert ("It is 3.", []) == answer
    check_text_only(upstream)
