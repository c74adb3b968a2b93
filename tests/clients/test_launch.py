"""Real coding agents that `fcshim launch` starts: from a running model server to a finished edit in one command."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.clients import environments
from tests.clients.agents.dialects import NOTATIONS
from tests.clients.agents.model import TASK, ScriptedModel
from tests.clients.agents.plan import Plan
from tests.clients.agents.table import AGENTS
from tests.scripted import model_list, scripted_upstream

_ALLOWED = {
    "claude": ("claude_code", ("-p", TASK, "--permission-mode", "acceptEdits", "--allowedTools", "Bash")),
    "codex": ("codex", ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK)),
    "opencode": ("opencode", ("run", "--pure", TASK)),
    "qwen": ("qwen_code", ("-y", "-p", TASK)),
    "gemini": ("gemini_cli", ("-y", "--skip-trust", "-p", TASK)),
    "pi": ("pi", ("-p", "--offline", "--no-approve", TASK)),
}
"""The agent's name here, and the arguments with which it works without a terminal."""
_OWN_SETTINGS = {".config/opencode/opencode.json": {"permission": "allow", "autoupdate": False, "share": "disabled"}}
"""What a user of the agent has: it stays in effect."""
_NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize("name", _ALLOWED)
async def test_one_command_leads_from_a_model_server_to_a_finished_edit(name, tmp_path):
    agent_name, arguments = _ALLOWED[name]
    if problem := environments.missing(agent_name):
        pytest.skip(problem)
    agent, plan, home = AGENTS[agent_name], Plan(tmp_path / "work"), tmp_path / "home"
    plan.write_files()
    for file, content in _OWN_SETTINGS.items():
        (home / file).parent.mkdir(parents=True)
        (home / file).write_text(json.dumps(content), encoding="utf-8")
    script = ScriptedModel(NOTATIONS["hermes"], agent.tools, plan.parts(), agent.json_results)
    async with scripted_upstream(respond=script.respond, listing=model_list(agent.models[0])) as upstream:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "fcshim", "launch", name, "--upstream", upstream.url, "--dialect", "hermes"),
            *("--", *arguments),
            cwd=plan.folder,
            env=_environment(agent_name, home),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), 300)
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()

    assert 0 == process.returncode, output.decode()
    assert plan.files(1) == plan.found(1), output.decode()
    assert "requests are shown at http://127.0.0.1:" in output.decode()
    assert [] == script.refused


def _environment(agent_name: str, home: Path) -> dict[str, str]:
    """Return variables like a user's, with the agent on PATH and no way out of this machine."""
    programs = environments.CACHE / agent_name / "node_modules" / ".bin"
    return {
        "PATH": os.pathsep.join([str(programs), str(environments.node_folder()), os.environ["PATH"]]),
        "PYTHONPATH": str(environments.ROOT),
        "HOME": str(home),
        "TMPDIR": str(home),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "HTTPS_PROXY": _NOWHERE,
        "NO_PROXY": "127.0.0.1,localhost",
    }
