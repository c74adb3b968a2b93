"""The run of a model's tasks: what is kept, what runs again, and which settings each mode has."""

import json
import math
from functools import partial

import msgspec
import pytest

from benchmarks.models.conversations import load_conversations
from benchmarks.models.loops import load_tasks, run_task
from benchmarks.models.results import case_results, conversation_results, loop_results
from benchmarks.models.run import SAMPLING, run_bfcl_case, run_conversation, run_tasks
from fcshim.errors import UpstreamError
from fcshim.evaluate.bfcl import BfclCase
from fcshim.evaluate.case import ExpectedCall
from fcshim.messages import Tool
from fcshim.upstream import Upstream
from fcshim.upstream.measured import MeasuredModel, save_measured
from fcshim.upstream.model_identity import identify
from tests.scripted import Script, model_list, scripted_upstream, text_reply

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CASE = BfclCase(
    id="a",
    category="simple_python",
    line=1,
    messages=({"role": "user", "content": "The weather in Oslo?"},),
    tools=(Tool("get_weather", "The weather in a city", SCHEMA),),
    expected=((ExpectedCall("get_weather", {"city": ["Oslo"]}),),),
    schemas={"get_weather": SCHEMA},
)
CALL = '<function_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</function_call>'
LISTING = model_list("m")


def tasks_of(*names):
    cases = [msgspec.structs.replace(CASE, id=name) for name in names]
    return {case.id: partial(run_bfcl_case, case=case) for case in cases}


def answer(_):
    return text_reply(CALL)


def posted(upstream):
    return [asked.body for asked in upstream.requests if asked.path == "/v1/chat/completions"]


async def test_a_result_keeps_what_the_model_wrote_for_it(tmp_path):
    async with scripted_upstream(respond=answer, listing=LISTING) as upstream:
        await run_tasks(upstream.url, tasks_of("a"), {"example": case_results(tmp_path, "example")}, math.inf)
    result = case_results(tmp_path, "example").by_id["a"]

    assert ("right", "") == (result.verdict, result.problem)
    assert [CALL] == [raw.text for raw in result.raw]


async def test_a_finished_task_never_runs_again(tmp_path):
    async with scripted_upstream(respond=answer, listing=LISTING) as upstream:
        for names, in_all in [(("a",), 1), (("a", "b"), 2), (("a", "b"), 2)]:
            files = {"example": case_results(tmp_path, "example")}
            await run_tasks(upstream.url, tasks_of(*names), files, math.inf)
            asked = [body for body in posted(upstream) if "Oslo" in json.dumps(body)]

            assert in_all == len(asked)


async def test_the_modes_run_in_turns_until_the_deadline(tmp_path):
    async with scripted_upstream(respond=answer, listing=LISTING) as upstream:
        files = {mode: case_results(tmp_path, mode) for mode in ("example", "bare_json")}
        await run_tasks(upstream.url, tasks_of("a"), files, -math.inf)
        assert [{}, {}] == [file.by_id for file in files.values()]
        await run_tasks(upstream.url, tasks_of("a"), files, math.inf)

    assert [["a"], ["a"]] == [list(file.by_id) for file in files.values()]


async def test_an_endpoint_that_does_not_answer_at_the_start_costs_no_task(tmp_path):
    broken = Script((b'{"error": {"message": "no model"}}',), 500)
    async with scripted_upstream(respond=lambda _: broken, listing=LISTING) as upstream:
        with pytest.raises(UpstreamError, match="no model"):
            await run_tasks(upstream.url, tasks_of("a"), {"example": case_results(tmp_path, "example")}, math.inf)

    assert {} == case_results(tmp_path, "example").by_id


@pytest.mark.model_pages
async def test_what_was_measured_for_the_model_counts_in_the_default_mode_alone(tmp_path, monkeypatch):
    """The pages that identify the model are the same through the relay."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    props = {"default_generation_settings": {}, "model_path": "/models/m.gguf", "chat_template": "{{ messages }}"}
    pages = {"/v1/models": LISTING, "/props": Script((json.dumps(props).encode(),))}
    async with scripted_upstream(respond=answer, pages=pages) as upstream:
        async with Upstream(upstream.url) as endpoint:
            identity = await identify(endpoint, "m")
        settings = {"tools": "native", "dialect": "function_call"}
        save_measured(
            identity.key, MeasuredModel(model="m", settings=settings, reason="", date="2026-11-24", complete=True)
        )
        for mode, is_native in [("default", True), ("example", False)]:
            before = len(posted(upstream))
            await run_tasks(upstream.url, tasks_of("a"), {mode: case_results(tmp_path, mode)}, math.inf)

            assert is_native == any("tools" in body for body in posted(upstream)[before:])


async def test_conversations_and_loops_are_kept_in_files_of_their_own(tmp_path):
    (talk, *_), (loop, *_) = load_conversations("test"), load_tasks("test")
    async with scripted_upstream(respond=lambda _: text_reply("It is packed."), listing=LISTING) as upstream:
        talks = {talk.case.id: partial(run_conversation, conversation=talk)}
        await run_tasks(upstream.url, talks, {"example": conversation_results(tmp_path, "example")}, math.inf)
        loops = {loop.id: partial(run_task, task=loop, sampling=SAMPLING)}
        await run_tasks(upstream.url, loops, {"example": loop_results(tmp_path, "example")}, math.inf)
    (said,) = conversation_results(tmp_path, "example").by_id.values()
    (done,) = loop_results(tmp_path, "example").by_id.values()

    assert ("right", ["It is packed."]) == (said.verdict, [raw.text for raw in said.raw])
    assert ("wrong_results", ["It is packed."]) == (done.verdict, [raw.text for raw in done.raw])
    assert {} == case_results(tmp_path, "example").by_id
