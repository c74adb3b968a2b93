import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from fcshim.demo import run
from fcshim.demo.endpoint import ChatEndpoint
from fcshim.demo.generation import Engine
from fcshim.demo.gguf_file import TINY_MODEL
from fcshim.demo.run import RecordingRelay, run_demo
from fcshim.demo.serving import serve_app
from fcshim.demo.tool_client import TOOL
from tests.chat.pseudo_terminal import terminal
from tests.chat.screens import save_screen


def test_the_demo_calls_a_tool_and_shows_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    code = run_demo(engine="numpy")
    shown = capsys.readouterr().out

    assert code == 0
    for part in (
        "only copies",
        "<function_call>",
        "tool_call_start  add_numbers",
        "tool_call_end    add_numbers",
        "stop             tool_use",
        "add_numbers(first=19, second=23) returned 42",
        '<function_result name="add_numbers">',
        "assistant: add_numbers returned 42",
    ):
        assert part in shown


async def test_the_demo_fits_a_terminal_whose_screen_is_in_the_readme(tmp_path: Path) -> None:
    async with terminal("demo", "--engine", "numpy", state=tmp_path, width=100) as shown:
        assert 0 == await shown.wait_exit()
        await shown.expect("add_numbers returned 42\n")

    save_screen("demo", shown.screen, whole=True)
    assert max(map(len, shown.rows)) <= 100


def test_with_serve_the_proxy_runs_until_a_signal() -> None:
    source = "import sys; from fcshim.demo.run import run_demo; sys.exit(run_demo(serve=True, engine='numpy'))"
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        shown = ""
        while "Ctrl-C" not in shown:
            shown += next(lines)
        found = re.search(r"curl (\S+)", shown)
        assert found is not None
        body = {"messages": [{"role": "user", "content": "call add_numbers with first=5, second=6"}], "tools": [TOOL]}
        reply = httpx.post(found[1], json=body | {"model": "fcshim-tiny"}, trust_env=False, timeout=20).json()
        process.send_signal(signal.SIGTERM)

        assert process.wait(10) == 0
        assert reply["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "add_numbers"


def test_a_real_model_calls_the_tool(
    small_model: Path, llama_program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So small a model may call again instead of answering, which the demo reports."""
    monkeypatch.setenv("LLAMA_ARG_THREADS", "1")  # several threads wait for each other on a busy machine
    run_demo(model=small_model, program=str(llama_program))
    shown = capsys.readouterr().out

    for part in (
        "user: What is 4817 plus 2963?",
        "tool_call_start  add_numbers",
        "stop             tool_use",
        "add_numbers(first=4817, second=2963) returned 7780",
    ):
        assert part in shown


def test_a_model_that_makes_no_call_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "_TINY", run._TINY._replace(question="say hello"))

    assert run_demo(engine="numpy") == 1
    assert "The model made no call." in capsys.readouterr().out


def test_a_signal_ends_the_llama_server_too(tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    program = tmp_path / "llama-server"
    program.write_text(f"#!/bin/sh\necho $$ > {started}\nexec sleep 600\n")
    program.chmod(0o755)
    source = "import sys; from fcshim.demo.run import run_demo; from pathlib import Path; "
    source += "sys.exit(run_demo(model=Path(sys.argv[1]), program=sys.argv[2]))"
    with subprocess.Popen([sys.executable, "-c", source, TINY_MODEL, program], stdout=subprocess.DEVNULL) as process:
        number = int(started.read_text())
        process.send_signal(signal.SIGTERM)

        assert process.wait(30) == 0
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


SAY = {"messages": [{"role": "user", "content": "say rain"}], "stream": True}


async def test_bytes_are_relayed_and_recorded(engine: Engine) -> None:
    async with serve_app(ChatEndpoint(engine)) as model, httpx.AsyncClient(trust_env=False) as client:
        relay = RecordingRelay(client, model)
        async with serve_app(relay) as relay_url:
            answers = [await client.post(f"{url}/v1/chat/completions", json=SAY) for url in (model, relay_url)]
            health = await client.get(f"{relay_url}/health")
            elsewhere = await client.post(f"{relay_url}/tokenize", json={"content": "a"})

    assert [answer.text.count("data: ") for answer in answers] == [answers[0].text.count("data: ")] * 2
    assert answers[1].headers["content-type"] == "text/event-stream"
    assert health.json() == {"status": "ok"}
    assert elsewhere.status_code == 404
    assert [(record.messages, record.text) for record in relay.records] == [([("user", "say rain")], "rain")]
