"""Agent frameworks as clients of a running fcshim in front of an endpoint that supports text only.

Each runs in an environment of its own, made by `python -m tests.clients.environments` (`make test-clients`); without
it, its tests are skipped.
"""

import asyncio
import json
import os

import pytest

from tests.clients.agents.plan import HARD
from tests.clients.environments import ENVIRONMENTS, PROGRAMS, ROOT, command_for, framework_version, missing
from tests.clients.text_only import check_text_only
from tests.scripted import MISSING, Script, model_list, scripted_upstream, text_reply
from tests.server.mcp_proxy import call_text, prompts
from tests.server.proxy import CALL, running_proxy

CASES = [(name, api) for name, environment in ENVIRONMENTS.items() for api in environment.apis]
FINAL = '<function_call>\n{"name": "final_answer", "arguments": {"answer": "It is 3."}}\n</function_call>'
NAMES = {"streamed": "PartialSum", "whole": "Sum"}
"""The name of the tool by which instructor has the model fill in `Sum`."""


def replies(name: str, mode: str) -> list[str]:
    """Return the model's replies: usually a call, then an answer."""
    match name:
        case "smolagents":
            return ["Let me. " + CALL, FINAL]
        case "instructor":
            return [CALL.replace('"add"', json.dumps(NAMES[mode]))]
        case _:
            return ["Let me. " + CALL, "It is 3."]


def cut(text: str) -> list[str]:
    return [text[at : at + 7] for at in range(0, len(text), 7)]


@pytest.fixture(autouse=True)
def _slow_clients(monkeypatch):
    """Allow more time for programs with slow imports."""
    monkeypatch.setattr("tests.server.proxy.LIMIT", 120.0)


async def converse(name, api, mode, *scripts):
    """Run a framework's program; return its status, its last line, its errors, and the upstream.

    A script that is a text is streamed, or sent as one document if the request does not ask for a stream.
    """
    if problem := missing(name):
        pytest.skip(problem)
    waiting = iter(scripts)

    def respond(request):
        # The proxy asks for it when a client of Ollama's API asks what the model can do.
        script = MISSING if request.path == "/api/show" else next(waiting)
        return _reply(script, request) if isinstance(script, str) else script

    listing = model_list("m")
    async with scripted_upstream(listing=listing, respond=respond) as upstream, running_proxy(upstream.url) as url:
        process = await asyncio.create_subprocess_exec(
            *command_for(name),
            *(api, url, mode),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, errors = await process.communicate()
    return process.returncode, json.loads(out.decode().strip().splitlines()[-1]), errors.decode()[-3000:], upstream


def _reply(text: str, request) -> Script:
    if request.body.get("stream"):
        return text_reply(*cut(text))
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    document = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return Script((json.dumps(document).encode(),), content_type="application/json")


EACH = pytest.mark.parametrize(("name", "api"), CASES, ids=[f"{name}-{api}" for name, api in CASES])
MODES = pytest.mark.parametrize("mode", ["streamed", "whole"])


@MODES
@EACH
async def test_a_tool_is_called_and_its_result_answered(name, api, mode, record_property):
    if not missing(name):
        described = {"client": name, "version": framework_version(name), "api": api, "dialect": "function_call"}
        for key, value in described.items():
            record_property(key, value)
    scripts = [text_reply(*cut(text)) for text in replies(name, mode)]
    status, found, errors, upstream = await converse(name, api, mode, *scripts)

    assert (0, {"text": "It is 3.", "called": [[1, 2]]}) == (status, found), errors
    check_text_only(upstream)


@MODES
@EACH
async def test_a_call_that_was_cut_off_is_never_run(name, api, mode):
    script = text_reply(*cut("Let me. " + CALL.partition("}")[0]), reason="length")
    _, found, errors, _ = await converse(name, api, mode, *[script] * 10)

    assert [] == found["called"], errors


BUILTIN_CALLS = {
    "shell": {"commands": ["echo $((1 + 2))"]},
    "local_shell": {"command": ["echo", "4"]},
    "apply_patch": {"type": "create_file", "path": "a.txt", "diff": "+5"},
}
BUILTIN_RUNS = [["echo $((1 + 2))"], ["echo", "4"], ["create_file", "a.txt", "+5"]]


@MODES
async def test_the_agents_sdk_runs_its_built_in_tools(mode):
    replies = [call_text(name, **arguments) for name, arguments in BUILTIN_CALLS.items()]
    scripts = [text_reply(*cut(text)) for text in (*replies, "Done.")]
    status, found, errors, upstream = await converse("openai_agents", "builtin_tools", mode, *scripts)
    results = [text.rpartition("<function_result name=")[2].split("\n")[:2] for text in prompts(upstream)[1:]]

    assert (0, {"text": "Done.", "called": BUILTIN_RUNS}) == (status, found), errors
    assert [['"shell">', "3"], ['"local_shell">', "4"], ['"apply_patch">', "done"]] == results


DSPY_ANSWER = "[[ ## answer ## ]]\nIt is 3.\n\n[[ ## completed ## ]]"
DSPY_REPLIES = {
    "openai_chat": [CALL, DSPY_ANSWER],
    "react": [
        f"[[ ## next_thought ## ]]\nCall it.\n\n[[ ## next_tool_name ## ]]\n{name}\n\n"
        f"[[ ## next_tool_args ## ]]\n{arguments}\n\n[[ ## completed ## ]]"
        for name, arguments in (("add", '{"a": 1, "b": 2}'), ("finish", "{}"))
    ]
    + ["[[ ## reasoning ## ]]\nIt was added.\n\n" + DSPY_ANSWER],
}
"""What the model writes for the endpoint's tools, and what DSPy's own module asks it to write as text."""


@MODES
@pytest.mark.parametrize("api", DSPY_REPLIES)
async def test_dspy_calls_by_the_endpoint_and_by_its_own_text(api, mode, record_property):
    if not missing("dspy") and api == "openai_chat":
        described = {"client": "dspy", "version": framework_version("dspy"), "api": api, "dialect": "function_call"}
        for key, value in described.items():
            record_property(key, value)
    status, found, errors, upstream = await converse("dspy", api, mode, *DSPY_REPLIES[api])

    assert (0, {"text": "It is 3.", "called": [[1, 2]]}) == (status, found), errors
    assert [] == [asked.body for asked in upstream.requests if "tools" in asked.body]


@MODES
async def test_aider_edits_by_text_that_passes_unchanged(mode):
    edit = f"notes.txt\n```\n<<<<<<< SEARCH\nKEEP\n=======\n{HARD}\n{CALL}\n>>>>>>> REPLACE\n```\n"
    status, found, errors, upstream = await converse("aider", "openai_chat", mode, edit)

    assert (0, {"text": f"first\n{HARD}\n{CALL}\nlast\n", "called": []}) == (status, found), errors
    assert [] == [asked.body for asked in upstream.requests if "tools" in asked.body]


def test_every_program_has_an_environment():
    programs = {path.stem for path in PROGRAMS.iterdir() if path.suffix in {".py", ".mjs"}} - {"__init__", "report"}

    assert set(ENVIRONMENTS) == programs
