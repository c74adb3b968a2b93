"""`fcshim eval`."""

import asyncio
import json
import os
import signal
import time

import pytest

from fcshim.evaluate import CATEGORIES
from tests.cli.command import COMMAND, fcshim
from tests.scripted import HANG, ROLE, Script, model_list, scripted_upstream, text_reply

TEXT_REPLY = text_reply("I do not know that.")
SERVER_ERROR = Script((b'{"error": {"message": "the model fell over"}}',), status=500)
CALL = '<function_call>\n{"name": "get_current_weather", "arguments": {"city": "Lisbon"}}\n</function_call>'
ONE_CASE = ("--category", "simple", "--limit", 1, "--max-retries", 0)


async def run_eval(upstream, *arguments):
    """Run the command in a thread, because the scripted upstream runs in this event loop."""
    return await asyncio.to_thread(fcshim, "eval", upstream.url, "--concurrency", 1, *arguments)


def test_the_embedded_model_is_measured(tmp_path):
    """End to end: a real model replies, the results are saved, and the second run reads them."""
    file = tmp_path / "run.jsonl"
    first = fcshim("eval", "--demo", "--limit", 6, "--output", file, "--plot", tmp_path / "run.svg")
    again = fcshim("eval", "--demo", "--limit", 6, "--output", file, "--resume", "--json")
    (summary,) = json.loads(again.out)["dialects"]

    assert (0, "", 0, "") == (first.code, first.err, again.code, again.err)
    assert f"{summary['total']['right']} of 6" in first.out
    assert summary["total"]["right"] >= 5
    assert 7 == len(file.read_bytes().splitlines())
    assert (tmp_path / "run.svg").stat().st_size > 1000


async def test_several_dialects_are_one_table():
    async with scripted_upstream(text_reply(CALL), TEXT_REPLY, listing=model_list("m")) as upstream:
        outcome = await run_eval(upstream, "--dialect", "function_call", "--dialect", "native", *ONE_CASE)

    head, _, row, *_ = outcome.out.splitlines()

    assert ["category", "function_call", "native"] == head.replace("┃", " ").split()
    assert ["simple", "1 of 1  100% (21 to 100)", "0 of 1    0% (0 to 79)"] == [cell.strip() for cell in row.split("│")]
    assert (0, "") == (outcome.code, outcome.err)


async def test_cases_of_bfcl_take_the_place_of_the_suite(tmp_path):
    """An accepted value counts as BFCL's checker compares it; the exact comparison of the suite would refuse it."""
    name = "BFCL_v4_simple_python.json"
    schema = {"type": "dict", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "get_current_weather", "description": "", "parameters": schema}
    row = {"id": "simple_1", "question": [[{"role": "user", "content": "Lisbon?"}]], "function": [function]}
    answer = {"id": "simple_1", "ground_truth": [{"get_current_weather": {"city": ["lisbon.", "Lisboa"]}}]}
    (tmp_path / "possible_answer").mkdir()
    (tmp_path / name).write_text(json.dumps(row))
    (tmp_path / "possible_answer" / name).write_text(json.dumps(answer))
    chosen = ("--bfcl", tmp_path, "--category", "simple_python")
    async with scripted_upstream(text_reply(CALL), listing=model_list("m")) as upstream:
        outcome = await run_eval(upstream, "--json", *chosen)

    summary = json.loads(outcome.out)

    assert {"simple_python": 1} == {name: rate["right"] for name, rate in summary["dialects"][0]["categories"].items()}
    assert summary["terms"]["suite"].startswith("bfcl-")
    assert "simple_1" == json.loads(fcshim("eval", "--list", *chosen).out)["id"]


def test_a_folder_without_bfcl_is_named(tmp_path):
    outcome = fcshim("eval", "http://127.0.0.1:9", "--bfcl", tmp_path)

    assert 2 == outcome.code
    assert "Expected the folder `data` of the package bfcl-eval" in outcome.err


def test_the_demo_model_does_not_understand_bfcl(tmp_path):
    outcome = fcshim("eval", "--demo", "--bfcl", tmp_path)

    assert (2, "fcshim: --demo uses a model that only understands commands: expected a URL with --bfcl\n") == (
        outcome.code,
        outcome.err,
    )


async def test_json_output_has_the_terms_and_the_rates():
    async with scripted_upstream(text_reply(CALL), listing=model_list("m")) as upstream:
        outcome = await run_eval(upstream, "--json", "--seed", 5, *ONE_CASE)

    summary = json.loads(outcome.out)

    assert ("m", 5, 0.0) == tuple(summary["terms"][name] for name in ("model", "seed", "temperature"))
    assert {"right": 1} == summary["dialects"][0]["verdicts"]
    assert 5 == upstream.requests[0].body["seed"]


async def test_failed_cases_are_listed_with_misses():
    async with scripted_upstream(TEXT_REPLY, listing=model_list("m")) as upstream:
        outcome = await run_eval(upstream, "--misses", *ONE_CASE)

    assert "simple-001 in auto: missing call" in outcome.out
    assert outcome.out.endswith("  said      I do not know that.\n")


def test_the_cases_can_be_listed_without_an_endpoint():
    outcome = fcshim("eval", "--list", "--category", "parallel", "--limit", 2)
    first, second = map(json.loads, outcome.out.splitlines())

    assert ("parallel-001", "parallel-002") == (first["id"], second["id"])
    assert "get_current_weather" == first["expected"][0][0]["name"]


async def test_the_settings_file_decides_the_dialect(tmp_path):
    async with scripted_upstream(TEXT_REPLY, listing=model_list("m")) as upstream:
        file = tmp_path / "fcshim.toml"
        file.write_text(f'upstream = "{upstream.url}"\n[models."m"]\ndialect = "hermes"\nmax_retries = 0\n')
        outcome = await asyncio.to_thread(
            fcshim, "eval", "--config", file, "--json", "--limit", 1, "--category", "simple"
        )

    assert "hermes" == json.loads(outcome.out)["dialects"][0]["dialect"]
    assert "<tool_call>" in json.dumps(upstream.requests[0].body["messages"])


async def test_a_file_of_other_settings_is_not_resumed(tmp_path):
    file = tmp_path / "run.jsonl"
    async with scripted_upstream(TEXT_REPLY, listing=model_list("m")) as upstream:
        await run_eval(upstream, "--output", file, *ONE_CASE)
        outcome = await run_eval(upstream, "--output", file, "--resume", "--temperature", 1, *ONE_CASE)

    assert 2 == outcome.code
    assert "was made with other settings: temperature was 0.0, is 1.0" in outcome.err


async def test_a_failing_endpoint_ends_the_run_and_the_results_so_far_are_shown(tmp_path):
    file = tmp_path / "run.jsonl"
    async with scripted_upstream(
        text_reply(CALL), *[SERVER_ERROR] * 10, TEXT_REPLY, listing=model_list("m")
    ) as upstream:
        options = ("--category", "simple", "--limit", 12, "--max-retries", 0, "--output", file)
        failed = await run_eval(upstream, *options)

    assert 1 == failed.code
    assert "10 consecutive cases failed" in failed.err
    assert "1 of 11" in failed.out
    assert "error" in failed.out


async def test_ctrl_c_shows_the_results_so_far_and_the_file_can_be_resumed(tmp_path):
    file = tmp_path / "run.jsonl"
    options = ("--category", "simple", "--limit", 2, "--max-retries", 0, "--output", file)
    async with scripted_upstream(
        text_reply(CALL), Script((ROLE, HANG)), TEXT_REPLY, listing=model_list("m")
    ) as upstream:
        command = [*COMMAND, "eval", upstream.url, "--concurrency", "1", *map(str, options)]
        pipe = asyncio.subprocess.PIPE
        running = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        await asyncio.to_thread(wait_for, lambda: len(upstream.requests) == 2)
        running.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(running.communicate(), 60)
        stopped = file.read_bytes().splitlines()
        again = await run_eval(upstream, *options, "--resume")

    assert 130 == running.returncode
    assert b"fcshim: stopped" in err
    assert b"1 of 1" in out
    assert 2 == len(stopped)
    assert "1 of 2" in again.out


def wait_for(happened):
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--category", "hard"], "there is no category 'hard'. Known are simple"),
        (["--dialect", "klingon"], "klingon"),
        (["--limit", "0"], "expected a whole number from 1"),
        (["--timeout", "soon"], "expected seconds"),
        (["--demo"], "expected that or a URL, not both"),
        (["--resume"], "--resume needs --output"),
        (["--plot", "rates.pdf"], ".svg or .png"),
    ],
)
def test_mistakes_are_reported_before_any_request(options, message):
    outcome = fcshim("eval", "http://127.0.0.1:9", *options)

    assert (2, "") == (outcome.code, outcome.out)
    assert message in outcome.err


def test_an_unreachable_endpoint_is_a_failure():
    outcome = fcshim("eval", "127.0.0.1:9")

    assert (1, "") == (outcome.code, outcome.out)
    assert outcome.err.startswith("fcshim: cannot connect to the upstream")


def test_the_help_names_every_category():
    text = fcshim("eval", "--help", env={**os.environ, "COLUMNS": "300"}).out

    assert [] == [name for name in CATEGORIES if name not in text]
