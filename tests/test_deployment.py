"""The files of docs/deploy: what they start exists, is valid, and answers its health check."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fcshim.config import Config, settings
from fcshim.extras import EXTRAS
from tests.engine.process import free_port, serving

DEPLOY = Path(__file__).parent.parent / "docs" / "deploy"
VARIABLES = {setting.env for setting in settings()}
POSIX = ("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty", "uvloop")
WITHOUT_POSIX = """
import asyncio, sys, tempfile, subprocess, uvicorn, httpx, httpx_aiohttp, rich  # they have ways of their own on Windows
for name in %r:
    sys.modules[name] = None
from fcshim.cli import main
import fcshim.client, fcshim.sync_client, fcshim.agent
sys.exit(main(sys.argv[1:]))
"""


def instructions(name):
    """Return the instructions of a Dockerfile's last stage by name, each with its arguments; the last one counts."""
    text = re.sub(r"\\\n\s*", " ", (DEPLOY / name).read_text("utf-8"))
    lines = [line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    last = max(at for at, line in enumerate(lines) if line[0] == "FROM")
    return dict(lines[last:])


def health_check(name):
    return json.loads(instructions(name)["HEALTHCHECK"].partition(" CMD ")[2])


def environment():
    return dict(pair.split("=", 1) for pair in instructions("Dockerfile")["ENV"].split())


@pytest.mark.parametrize("name", ["Dockerfile", "llama.Dockerfile"])
def test_images_do_not_run_as_root(name):
    user, group = instructions(name)["USER"].split(":")

    assert int(user) > 0
    assert int(group) > 0


def test_the_image_has_existing_extras_and_settings():
    text = (DEPLOY / "Dockerfile").read_text("utf-8")

    assert set(re.findall(r"\[([a-z,]+)\]'", text)) == {"serve,mcp,metrics,redis"}
    assert {"serve", "mcp", "metrics", "redis"} <= set(EXTRAS)
    assert {name for name in environment() if name.startswith("FCSHIM_")} <= VARIABLES
    assert ["fcshim", "serve"] == [
        *json.loads(instructions("Dockerfile")["ENTRYPOINT"]),
        *json.loads(instructions("Dockerfile")["CMD"]),
    ]


def test_the_build_gets_every_part_of_the_package_and_nothing_private():
    ignored, *given = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").split()
    included = {line.removeprefix("!") for line in given if line.startswith("!")}

    assert "*" == ignored
    assert {"fcshim", "grammars", "templates", "pyproject.toml", "README.md", "LICENSE"} == included


def test_the_health_check_succeeds_while_the_proxy_answers_and_fails_when_it_does_not(tmp_path):
    port = str(free_port())
    given = {
        **os.environ,
        **environment(),
        "FCSHIM_PORT": port,
        "FCSHIM_API_KEYS": "k",
        "http_proxy": "http://127.0.0.1:9",
    }
    command = [sys.executable, "-m", "fcshim", "serve", "--upstream", "http://127.0.0.1:9"]
    program, *arguments = health_check("Dockerfile")

    def check():
        return subprocess.run([sys.executable, *arguments], env=given, capture_output=True, timeout=20, check=False)

    before = check().returncode
    started = [*command, *("--host", given["FCSHIM_HOST"], "--port", port, "--api-key", "k")]
    with serving(started, f"http://127.0.0.1:{port}", tmp_path / "log"):
        during = check()

    assert ("python", 1, 0, b"") == (program, before, during.returncode, during.stderr)


def test_the_services_fit_together():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    proxy, llama = services["fcshim"], services["llama"]
    port = llama["command"][llama["command"].index("--port") + 1]

    assert set(proxy["environment"]) <= VARIABLES
    assert f"http://llama:{port}" == proxy["environment"]["FCSHIM_UPSTREAM"]
    assert f"http://127.0.0.1:{port}/health" in health_check("llama.Dockerfile")
    assert [f"127.0.0.1:{Config().port}:{environment()['FCSHIM_PORT']}"] == proxy["ports"]
    assert "ports" not in llama
    for service in services.values():
        build = service["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
        assert (True, ["ALL"], ["no-new-privileges:true"]) == tuple(
            service[key] for key in ("read_only", "cap_drop", "security_opt")
        )


@pytest.mark.parametrize(
    ("words", "seconds"), [("compose.yaml", r"stop_grace_period: (\d+)s"), ("fcshim.service", r"TimeoutStopSec=(\d+)")]
)
def test_running_streams_have_time_to_end(words, seconds):
    assert int(re.search(seconds, (DEPLOY / words).read_text("utf-8"))[1]) > Config().drain_timeout


def unit_file(folder):
    """Write the unit with the program of this environment in the place of the installed one."""
    text = (DEPLOY / "fcshim.service").read_text("utf-8")
    (start,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)

    assert ["/opt/fcshim/bin/fcshim", "serve", "--config", "/etc/fcshim/fcshim.toml"] == shlex.split(start)
    file = folder / "fcshim.service"
    file.write_text(text.replace("/opt/fcshim/bin/fcshim", sys.executable), "utf-8")
    return file


def test_the_unit_starts_the_proxy(tmp_path):
    assert unit_file(tmp_path).is_file()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_accepts_the_unit_and_finds_it_hardened(tmp_path):
    file = unit_file(tmp_path)
    for words in (("verify", "--man=no"), ("security", "--offline=true", "--no-pager", "--threshold=20")):
        command = ["systemd-analyze", *words, file]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        complaints = [line for line in done.stderr.splitlines() if "fcshim.service" in line]

        assert (0, []) == (done.returncode, complaints), done.stdout + done.stderr


def test_the_proxy_and_the_client_need_no_module_that_only_posix_has(tmp_path):
    port = str(free_port())
    program = WITHOUT_POSIX % (POSIX,)
    command = [sys.executable, "-c", program, "serve", "http://127.0.0.1:9", "--port", port]
    with serving(command, f"http://127.0.0.1:{port}", tmp_path / "log"):
        pass

    assert "Traceback" not in (tmp_path / "log").read_text("utf-8")
