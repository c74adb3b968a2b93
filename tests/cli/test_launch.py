"""`fcshim launch`, with a program in the place of each agent that says what it was given."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import httpx
import pytest

from fcshim.cli.launch_clients import CLIENTS, fill
from tests.mcp.server_programs import eventually
from tests.scripted import Script, model_list, scripted_upstream

STAND_IN = """\
#!{python}
import json, os, pathlib, sys, time, urllib.request
folders = [value for value in os.environ.values() if "/fcshim-" in value and "\\n" not in value]
files = {{}}
for value in folders:
    path = pathlib.Path(value)
    for file in [path] if path.is_file() else path.rglob("*.json"):
        files[str(file)] = json.loads(file.read_text())
text = json.dumps([sys.argv, dict(os.environ), files])
url = text[text.index("http://127.0.0.1:"):].split('"')[0].split("\\\\")[0].removesuffix("/v1")
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
listed = json.load(opener.open(url + "/v1/models"))["data"]
pathlib.Path({report!r}).write_text(json.dumps([url, [each["id"] for each in listed], text]))
if {waits}:
    time.sleep(600)
sys.exit(7)
"""
PROPS = Script((b'{"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1}',))
PAGES = {"/v1/models": model_list("qwen2.5"), "/props": PROPS}


def stand_in(folder: Path, name: str, *, waits: bool = False) -> Path:
    """Put a program of this name on a path of its own; return the file of its report."""
    report, program = folder / "report.json", folder / "bin" / name
    program.parent.mkdir()
    program.write_text(STAND_IN.format(python=sys.executable, report=str(report), waits=waits))
    program.chmod(0o755)
    return report


async def start(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    env = {name: value for name, value in os.environ.items() if not name.startswith("FCSHIM_")}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fcshim", "launch", *arguments),
        env={**env, "PATH": f"{folder / 'bin'}{os.pathsep}{env['PATH']}", "XDG_STATE_HOME": str(folder / "state")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def refuses(url: str) -> bool:
    """Return whether nothing listens at this address."""
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            await client.get(url)
        except httpx.ConnectError:
            return True
    return False


@pytest.mark.parametrize("name", CLIENTS)
async def test_an_agent_gets_the_proxy_the_model_and_its_context(name, tmp_path):
    report = stand_in(tmp_path, CLIENTS[name].program)
    async with scripted_upstream(pages=PAGES) as upstream:
        process = await start(tmp_path, name, "--upstream", upstream.url, "--", "-p", "Fix it")
        out, err = await asyncio.wait_for(process.communicate(), 60)
        still_there = await asyncio.to_thread(httpx.get, f"{upstream.url}/v1/models", trust_env=False)

    assert (7, b"") == (process.returncode, out), err.decode()
    url, models, given = json.loads(report.read_text())
    argv, _, files = json.loads(given)
    assert "fcshim: qwen2.5, 8,192 tokens of context; requests are shown at http://127.0.0.1:" in err.decode()
    assert ["qwen2.5"] == models
    assert ["-p", "Fix it"] == argv[-2:]
    assert "qwen2.5" in given
    assert ("0.005469" if name == "gemini" else "8192") in given
    assert not any(map(os.path.exists, files))
    assert still_there.is_success
    assert await refuses(url)


async def test_what_ends_the_command_ends_the_agent_and_the_proxy(tmp_path):
    report = stand_in(tmp_path, "claude", waits=True)
    async with scripted_upstream(pages=PAGES) as upstream:
        process = await start(tmp_path, "claude", "--upstream", upstream.url)
        await eventually(report.exists, 60)
        await eventually(lambda: report.read_text().endswith("]"), 60)
        process.send_signal(signal.SIGTERM)
        _, err = await asyncio.wait_for(process.communicate(), 60)

    assert 128 + signal.SIGTERM == process.returncode
    assert "Traceback" not in err.decode()
    assert await refuses(json.loads(report.read_text())[0])


@pytest.mark.parametrize("name", CLIENTS)
async def test_an_agent_that_is_not_installed_is_named_with_the_command_that_installs_it(name, tmp_path):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fcshim", "launch", name, "--upstream", "http://127.0.0.1:9"),
        env={**os.environ, "PATH": str(tmp_path)},
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await asyncio.wait_for(process.communicate(), 60)

    assert 2 == process.returncode
    assert f"there is no {CLIENTS[name].program} on PATH; to install it: npm install -g " in err.decode()


def test_a_text_that_is_only_a_value_keeps_its_type():
    values = {"context": 8192, "model": "m"}

    assert {"m": {"limit": 8192, "text": "8192 for m"}} == fill(
        {"{model}": {"limit": "{context}", "text": "{context} for {model}"}}, values
    )
