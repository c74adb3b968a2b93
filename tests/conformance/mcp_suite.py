"""MCP's conformance suite against both halves of fcshim: its client, and `fcshim mcp` with the tools of the suite.

Rule: what a revision of the protocol requires is the suite's own list (`requirements/*.yaml`); a check that warns has
passed, because it is about what an implementation may do.
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from fcshim.events import JSON
from tests.clients.environments import ROOT, node_folder
from tests.conformance.environment import MCP
from tests.conformance.suites import SuiteResult
from tests.engine.process import free_port
from tests.mcp.server_programs import wait_listening

REVISIONS = ("2025-11-25", "2026-07-28")
_TOOLS = Path(__file__).parent / "mcp_tools" / "tools.py"
_SECONDS = 300.0
_RESULT = re.compile(r"(?:server-)?(.+?)-\d{4}-\d\d-\d\dT.*")
"""The folder of a scenario's result."""


def scenarios(revision: str, half: str) -> list[str]:
    """Return the scenarios that a revision requires of a `client` or `server`; none if the suite is missing."""
    file = MCP / "requirements" / f"{revision}.yaml"
    return list(yaml.safe_load(file.read_text(encoding="utf-8"))[half]) if file.exists() else []


def judge_client(revision: str, scenario: str) -> SuiteResult:
    """Run the client against the server of one scenario."""
    command = f"{sys.executable} -m tests.conformance.mcp_client"
    (found,) = _run("client", "--scenario", scenario, "--command", command, "--spec-version", revision).values()
    return found


def judge_server(revision: str) -> dict[str, SuiteResult]:
    """Run `fcshim mcp` and what a revision requires of a server; return the result of each scenario."""
    with _suite_server() as url:
        found = _run("server", "--url", url, "--requirements", revision)
    return {name: found[name] for name in scenarios(revision, "server")}


def conformance() -> dict[str, SuiteResult]:
    """Return the checks that each half passes, by the revision of the protocol."""
    found = {}
    for revision in REVISIONS:
        client = {name: judge_client(revision, name) for name in scenarios(revision, "client")}
        for half, results in (("client", client), ("server", judge_server(revision))):
            failures = tuple(f"{name}: {check}" for name, result in results.items() for check in result.failures)
            total = sum(result.total for result in results.values())
            found[f"checks of a {half}, protocol of {revision}"] = SuiteResult(total, failures)
    return found


@contextlib.contextmanager
def _suite_server() -> Iterator[str]:
    """Run `fcshim mcp` with the tools of the suite until the block ends; yield its URL."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(_TOOLS, folder)
        port = free_port()
        allow = ("--allow", "test_*", "--allow", "json_schema_*")
        command = [sys.executable, "-m", "fcshim", "mcp", "--tools", folder, *allow, "--http", "--port", str(port)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                wait_listening(process, port)
                yield f"http://127.0.0.1:{port}/mcp"
            finally:
                process.kill()


def _run(half: str, *options: str) -> dict[str, SuiteResult]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [node_folder() / "node", MCP / "dist" / "index.js", half, *options, "--output-dir", folder],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        files = {_RESULT.sub(r"\1", file.parent.name): file for file in Path(folder).rglob("checks.json")}
        assert files, done.stderr[-2000:]
        return {name: _result(json.loads(file.read_text(encoding="utf-8"))) for name, file in files.items()}


def _result(checks: list[dict[str, JSON]]) -> SuiteResult:
    judged = [check for check in checks if check["status"] in ("SUCCESS", "FAILURE", "WARNING")]
    return SuiteResult(len(judged), tuple(check["id"] for check in judged if check["status"] == "FAILURE"))
