"""What all tests share: which of them run real engines, how Hypothesis searches, and what ctrl-C means."""

import atexit
import functools
import gc
import importlib
import os
import shutil
import signal
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.examples import IN_MAKE_TEST

ENGINE_TESTS = (
    "agent/test_whole.py",
    "clients/test_walks.py",
    "engine/",
    "chat/test_demo.py",
    "chat/test_input.py",
    "chat/test_one_shot.py",
    "chat/test_question.py",
    "chat/test_real_model.py",
    "chat/test_servers.py",
    "chat/test_terminal.py",
    "chat/test_twenty_turns.py",
    "chat/test_user_commands.py",
    "cli/test_completion.py",
    "cli/test_config.py",
    "cli/test_demo.py",
    "cli/test_doctor.py",
    "cli/test_entry.py",
    "cli/test_eval.py",
    "cli/test_launch.py",
    "cli/test_mcp.py",
    "cli/test_models.py",
    "cli/test_parse.py",
    "cli/test_render.py",
    "cli/test_serve.py",
    "cli/test_terminal_attacks.py",
    "cli/test_tools.py",
    "demo/test_endpoint.py",
    "demo/test_evaluate.py",
    "demo/test_generation.py",
    "demo/test_run.py",
    "evaluate/test_answerable.py",
    "fuzz/test_expressions.py",
    "inspector/test_page.py",
    "integrations/test_frameworks.py",
    "integrations/test_ray.py",
    "mcp/test_hostile.py",
    "mcp/test_http_hostile.py",
    "mcp/test_logins.py",
    "mcp/test_manager.py",
    "mcp/test_npm.py",
    "mcp/test_older_servers.py",
    "mcp/test_resources.py",
    "mcp/test_server_requests.py",
    "mcp/test_server_secrets.py",
    "mcp/test_tool.py",
    "registry/",
    "server/test_run.py",
    "server/test_server_tools",
    "server/test_store_",
    "server/test_workers.py",
    "clients/test_agents.py",
    "clients/test_launch.py",
    "clients/test_server_tools.py",
    "test_deployment.py",
    "test_extras.py",
    "test_readme.py",
    "test_wheel.py",
    "tools/test_process_guard.py",
)
"""Tests that run for long because they start llama-server, the embedded model, MCP servers, commands or terminals:
`make test-engine` runs them, and single tests with its marker; `make test` leaves them out."""

# No deadline: how long one example takes says more about the machine than about the code; benchmarks/ measures speed.
# `make test` tries the same examples each time, so that it fails for a change and not by luck. `make fuzz` explores.
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True, max_examples=IN_MAKE_TEST)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1_000)
settings.load_profile("repeatable")

# Reading the certificates takes 20 ms, and the tests make 2,000 HTTP clients, nearly all for plain HTTP.
ssl.create_default_context = functools.cache(ssl.create_default_context)

# What fcshim keeps of the user (measured models, pins, sessions, logins) is neither read nor changed by tests and
# the programs that they start.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="fcshim-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

# A shell that starts tests in the background has them ignore ctrl-C, and with them every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the collector of cycles out of the collection, and what was collected (19,000 tests, SDKs) out of it later.

    It takes a third of the collection's time otherwise, in every test process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)  # what tests leave behind may wait: collecting it is 6 % of the time otherwise
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the files of `ENGINE_TESTS` unread where only the other tests run: they import the most."""
    return (config.option.markexpr == "not engine" and _is_engine_test(collection_path)) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `ENGINE_TESTS`."""
    for item in items:
        if _is_engine_test(item.path):
            item.add_marker(pytest.mark.engine)


def _is_engine_test(path: Path) -> bool:
    here = Path(__file__).parent
    return path.is_relative_to(here) and path.relative_to(here).as_posix().startswith(ENGINE_TESTS)


@pytest.fixture(autouse=True)
def _unlisted_models(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep `model_resolution` from asking scripted upstreams, which answer only what their tests script.

    Tests of what it asks have the marker `model_pages`; the real engines of tests/engine are always asked.
    """
    is_real = request.node.path.is_relative_to(Path(__file__).parent / "engine")
    if request.node.get_closest_marker("model_pages"):
        # What an earlier test has measured for a model with the same pages would decide in this one.
        monkeypatch.setenv("XDG_STATE_HOME", str(request.getfixturevalue("tmp_path") / "state"))
        return
    if is_real:
        return
    resolution = importlib.import_module("fcshim.upstream.model_resolution")

    async def list_nothing(_: object) -> object:
        return resolution.ServedModels(())

    monkeypatch.setattr(resolution, "list_served", list_nothing)
