import re
import signal
import subprocess
import sys

import httpx
import pytest

from fcshim.demo.run import run_demo
from fcshim.demo.tool_client import TOOL


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
