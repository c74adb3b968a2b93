"""`fcshim doctor`: its output and exit codes. `tests/engine` runs it against real servers."""

import asyncio
import io
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from rich.console import Console

from fcshim.cli.doctor_report import DoctorReport, PlainReport, TerminalReport, make_report
from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.config import load_config
from fcshim.evaluate.connect import EndpointInfo
from fcshim.evaluate.doctor import Diagnosis
from fcshim.evaluate.race import RaceProgress
from fcshim.evaluate.recommendations import Recommendation
from fcshim.evaluate.result import Finding
from fcshim.evaluate.standings import Outcome, Standing, report_on
from fcshim.pipeline.backends import get_backend
from fcshim.upstream.detection import Detection
from tests.cli.command import fcshim
from tests.evaluate.scripted_model import case_of, write_calls, write_nothing
from tests.scripted import HANG, ROLE, Script, model_list, scripted_upstream

REFUSED = Script((b'{"error":{"message":"the model cannot be loaded"}}',), 500)


async def doctor(*arguments):
    """Run the command in a thread, because the scripted upstream runs in this event loop."""
    return await asyncio.to_thread(fcshim, "doctor", *arguments)


async def test_an_endpoint_without_replies_is_a_failure_and_no_file_is_written(tmp_path):
    pages = {"/v1/models": model_list("m")}
    async with scripted_upstream(respond=lambda _: REFUSED, pages=pages) as upstream:
        outcome = await doctor(upstream.url, "--write", tmp_path / "found.toml")

    assert (1, "") == (outcome.code, outcome.err)
    assert "no      gives replies" in outcome.out
    assert "the model cannot be loaded" in outcome.out
    conclusion, not_written = outcome.out.rstrip().splitlines()[-2:]
    assert "m cannot make tool calls: it gives no replies." == conclusion
    assert f"{tmp_path / 'found.toml'} is not written." == not_written
    assert not [*tmp_path.iterdir()]


async def test_an_existing_file_is_kept_when_the_model_cannot_make_calls(tmp_path):
    file = tmp_path / "found.toml"
    file.write_text("port = 1\n")
    async with scripted_upstream(respond=lambda _: REFUSED, pages={"/v1/models": model_list("m")}) as upstream:
        outcome = await doctor(upstream.url, "--write", file, "--force", "--json")

    assert (1, f"fcshim: the model cannot make tool calls: {file} is unchanged.\n") == (outcome.code, outcome.err)
    assert "port = 1\n" == file.read_text()


async def test_a_quick_run_finds_the_best_settings_with_progress_and_an_estimate_of_the_time():
    async with scripted_upstream(respond=write_calls("bare_json"), listing=model_list("m")) as upstream:
        outcome = await doctor(upstream.url, "--quick", "--cases", "8")

    assert (0, "") == (outcome.code, outcome.err)
    assert "raced   asked in function_call              2 of 4 right" in outcome.out
    assert " s left]\n" in outcome.out
    assert "The model makes tool calls, best asked in bare_json: 4 of 4 right" in outcome.out
    assert "  asked in hermes: 2 of 4 right" in outcome.out
    assert "dropped: it made no call" in outcome.out
    assert "The result is kept for this model" in outcome.out
    assert 'dialect = "bare_json"' in outcome.out


async def test_a_model_that_never_calls_is_a_failure():
    async with scripted_upstream(respond=write_nothing, listing=model_list("m")) as upstream:
        outcome = await doctor(upstream.url, "--quick", "--cases", "4")

    assert 1 == outcome.code
    assert "m cannot make tool calls: no candidate had a correct call." in outcome.out


async def test_ctrl_c_ends_the_race_with_the_best_so_far(tmp_path):
    """As a process of its own, which gets the signal while the second candidate hangs."""

    def respond(asked):
        shown = "<function_call>" in str(asked.body)
        return write_calls("function_call")(asked) if shown or case_of(asked) is None else Script((ROLE, HANG))

    file = tmp_path / "found.toml"
    async with scripted_upstream(respond=respond, listing=model_list("m")) as upstream:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "fcshim", "doctor", upstream.url, "--quick", "--write", str(file)),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
        )
        await asyncio.wait_for(upstream.hanging.wait(), 120)
        process.send_signal(signal.SIGINT)
        out, _ = await process.communicate()

    assert 130 == process.returncode
    assert b"best asked in function_call, example: 4 of 4 right" in out
    assert b"Interrupted: this is the best so far." in out
    assert "function_call" == load_config(file=file).for_model("m").dialect
    assert len([*(tmp_path / "state").rglob("*.json")]) == 1


async def test_json_output_has_the_findings():
    async with scripted_upstream(respond=lambda _: REFUSED, pages={"/v1/models": model_list("m")}) as upstream:
        outcome = await doctor(upstream.url.removeprefix("http://"), "--json")

    report = json.loads(outcome.out)

    assert (1, False, "m", upstream.url) == (outcome.code, report["works"], report["model"], report["upstream"])
    assert ["reply"] == [finding["probe"] for finding in report["findings"]]


async def test_a_web_page_is_reported_as_such():
    page = Script((b"<html><title>Router</title></html>",))
    async with scripted_upstream(pages={"/v1/models": page}) as upstream:
        outcome = await doctor(upstream.url)

    assert (1, "") == (outcome.code, outcome.out)
    assert "answers a web page, 'Router' (HTTP 200). Is this the address of the API?" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("http://127.0.0.1:9", "--cases", "0"), "expected a whole number from 1, got '0'"),
        (("http://127.0.0.1:9", "--budget", "0"), "expected seconds, from more than 0"),
        (("http://127.0.0.1:9", "--budget", "soon"), "got 'soon'"),
        (("http://127.0.0.1:9", "--category", "simpel"), "there is no category 'simpel'"),
        (("http://user@127.0.0.1:9",), "expected a URL without user"),
        (("http://127.0.0.1:9", "--write", __file__), "--force"),
        (("http://127.0.0.1:9", "--write", __file__ + ".d/found.toml"), "there is no folder"),
        (("http://127.0.0.1:9", "--write", Path(__file__).parent, "--force"), "it is a folder"),
        (("http://127.0.0.1:9", "--upstream-api", "gopher"), "gopher"),
    ],
)
def test_a_mistake_is_reported_before_any_request(arguments, words):
    outcome = fcshim("doctor", *arguments)

    assert (2, "") == (outcome.code, outcome.out)
    assert words in outcome.err


def test_an_unreachable_endpoint_is_a_failure():
    outcome = fcshim("doctor", "http://127.0.0.1:9")

    assert 1 == outcome.code
    assert "cannot connect" in outcome.err


ENDPOINT = EndpointInfo(
    "http://h", UPSTREAMS["openai"], Detection(get_backend("vllm"), "its models say so"), ("a", "b"), "a"
)
FINDING = Finding(probe="images", title="images", verdict="no", evidence="refused [bold]", means="a line says so")
STANDING = Standing(
    name="hermes",
    settings={"dialect": "hermes"},
    prompt_tokens=90,
    probe="other",
    outcomes=(*[Outcome("right", True, True)] * 7, Outcome("wrong_tool", True, True)),
)
DIAGNOSIS = Diagnosis(
    upstream="http://h",
    upstream_api="openai",
    server="vllm",
    evidence="",
    model="a",
    models=2,
    table="a",
    works=True,
    requests=3,
    findings=(FINDING,),
    candidates=(report_on(STANDING),),
    best="hermes",
    dialect="hermes",
    reason="it was best",
    complete=True,
    decided=False,
    kept=True,
    choices=(Recommendation(setting="upstream", value="http://h", reason="x" * 100 + " y"),),
)


def show_all(report: DoctorReport) -> None:
    with report.show_activity():
        report.callbacks.on_connect(ENDPOINT)
        report.callbacks.on_finding(FINDING)
        report.callbacks.on_progress(RaceProgress("hermes", 1, 8, 75.0))
        report.callbacks.on_round(STANDING)
    report.finish(DIAGNOSIS, None)


def test_a_terminal_gets_columns_and_unbroken_settings():
    out = io.StringIO()
    show_all(TerminalReport(Console(file=out, force_terminal=True, width=80, color_system=None, highlight=False)))

    assert "http://h is vllm (its models say so) with 2 models; examined: a" in out.getvalue()
    assert "✗ images" in out.getvalue()
    assert "refused [bold]" in out.getvalue()
    assert "• asked in hermes" in out.getvalue()
    assert "7 of 8 right (calls 7 of 8), 90" in out.getvalue()
    assert "this is the best so far" in out.getvalue()
    assert f"# {'x' * 100} y\nupstream" in out.getvalue()


def test_without_a_terminal_the_output_is_plain_lines(capfdbinary):
    show_all(PlainReport())
    out = capfdbinary.readouterr().out

    assert b"no      images                              refused [bold] -> a line says so\n" in out
    assert b"it writes another form than the one that it is shown [1.2 min left]\n" in out


def test_the_output_stream_decides_which_report_is_used():
    assert isinstance(make_report(io.StringIO(), silent=False), PlainReport)
    assert DoctorReport is type(make_report(io.StringIO(), silent=True))


async def test_one_section_of_a_file_is_edited_and_its_comments_stay(tmp_path):
    file = tmp_path / "fcshim.toml"
    file.write_text('# mine\n[upstreams.other]  # keep\nurl = "http://127.0.0.1:1"\n')
    async with scripted_upstream(respond=write_calls("hermes"), listing=model_list("m")) as upstream:
        outcome = await doctor(upstream.url, "--quick", "--cases", "4", "--section", "local", "--write", file)
    config = load_config(file=file)

    assert (0, "") == (outcome.code, outcome.err)
    assert file.read_text().startswith('# mine\n[upstreams.other]  # keep\nurl = "http://127.0.0.1:1"\n')
    assert ["other", "local"] == list(config.upstreams)
    assert upstream.url in config.upstreams["local"].url


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("", ("--section", "local"), "expected the file, by --write"),
        ("", ("--section", "a/b", "--write", "FILE"), "expected a name of letters"),
        ('upstream = "http://h"', ("--section", "a", "--write", "FILE"), "the file has one upstream"),
    ],
)
async def test_a_section_that_cannot_be_written_is_refused_before_anything_is_asked(tmp_path, text, options, problem):
    file = tmp_path / "fcshim.toml"
    file.write_text(text)
    outcome = await doctor("http://127.0.0.1:9", *(file if each == "FILE" else each for each in options))

    assert 2 == outcome.code
    assert problem in outcome.err
    assert text == file.read_text()
