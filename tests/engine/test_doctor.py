"""`fcshim doctor` on real servers: its findings are right, and `serve` works with the settings that it writes."""

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from fcshim.config import load_config
from fcshim.demo.serving import serve_model
from tests.cli.command import CliResult, fcshim
from tests.engine import templates
from tests.engine.conftest import TINY
from tests.engine.llama_server import LlamaServer, running
from tests.engine.process import free_port, serving

CASES = ("--category", "commands", "--cases", "4")
PROBES_ONLY = ("--category", "commands", "--cases", "1")
"""All probes, and the least of a race."""
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def examined(url: str, *options: str) -> dict[str, Any]:
    """Run the doctor and return its report, with the findings by name."""
    outcome = fcshim("doctor", url, "--json", *PROBES_ONLY, *options)
    report: dict[str, Any] = json.loads(outcome.out)

    assert (0 if report["works"] else 1, "") == (outcome.code, outcome.err)

    report["found"] = {finding["probe"]: finding for finding in report["findings"]}
    report["set"] = {choice["setting"]: choice["value"] for choice in report["choices"]}
    return report


def verdicts(report: dict[str, Any], *probes: str) -> list[str]:
    return [report["found"][probe]["verdict"] for probe in probes]


@contextmanager
def templated(program: Path, folder: Path, template: str, *options: str) -> Iterator[LlamaServer]:
    file = folder / "template.jinja"
    file.write_text(template)
    with running(program, TINY, folder, "--temp", "0", "--chat-template-file", str(file), *options) as server:
        yield server


def test_a_plain_llama_server_is_known_and_understood(trained_server: LlamaServer) -> None:
    report = examined(trained_server.url)

    assert ("llama-server", "llamacpp", "*") == (report["server"], report["upstream_api"], report["table"])
    assert ["yes"] * 8 == verdicts(report, "reply", "usage", "stream", "context", "system", "order", "prefill", "stop")
    assert ["yes", "yes", "no"] == verdicts(report, "grammar", "schema", "structural_tag")
    assert "ignored" == report["found"]["tools"]["value"]
    assert 2048 == report["found"]["context"]["value"]
    assert {"constrain": "llama-server", "tools": "prompt", "prompt_budget": 1433}.items() <= report["set"].items()
    assert "text-only" == report["set"]["profile"]
    assert report["requests"] <= 40


def test_a_random_model_is_constrained_but_does_not_obey(random_server: LlamaServer) -> None:
    report = examined(random_server.url)

    assert ["yes", "yes", "yes"] == verdicts(report, "grammar", "schema", "system")
    assert "but the model answers" in report["found"]["system"]["evidence"]


def test_a_server_without_jinja_refuses_tools(program: Path, tmp_path: Path) -> None:
    with running(program, TINY, tmp_path, "--no-jinja") as server:
        report = examined(server.url)

    assert "no" == report["found"]["tools"]["verdict"]
    assert "--jinja" in report["found"]["tools"]["evidence"]
    assert ["yes", "prompt"] == [report["found"]["grammar"]["verdict"], report["set"]["tools"]]


def test_a_template_that_refuses_system_messages_or_drops_them_gets_no_system_profile(
    program: Path, tmp_path: Path
) -> None:
    with templated(program, tmp_path, templates.REFUSING_SYSTEM) as server:
        refusing = examined(server.url)
    with templated(program, tmp_path, templates.DROPPING_SYSTEM) as server:
        dropping = examined(server.url)

    assert ["no", "no"] == verdicts(refusing, "system", "order")
    assert "HTTP 400" in refusing["found"]["system"]["evidence"]
    assert refusing["found"]["order"]["evidence"].startswith("two user turns in a row: the upstream answered HTTP 400")
    assert ["no", "yes"] == verdicts(dropping, "system", "order")
    assert "dropped without a word" in dropping["found"]["system"]["evidence"]
    assert ["no-system+text-only"] * 2 == [refusing["set"]["profile"], dropping["set"]["profile"]]


@pytest.mark.parametrize(
    ("template", "setting", "replayed"),
    [(templates.THINKING, "<think>", "no"), (templates.THINKING_REPLAYED, None, "yes")],
)
def test_reasoning_that_the_template_opens_is_set_where_the_server_leaves_it_in_the_text(
    program: Path, tmp_path: Path, template: str, setting: str | None, replayed: str
) -> None:
    with templated(program, tmp_path, template) as server:
        report = examined(server.url)

    assert ["yes", replayed] == verdicts(report, "reasoning", "replay")
    assert setting == report["set"].get("open_reasoning_tag")


def test_tools_in_the_template_are_noticed_by_the_tokens_that_they_take(program: Path, tmp_path: Path) -> None:
    with templated(program, tmp_path, templates.WITH_TOOLS) as server:
        report = examined(server.url)

    assert "ignored" not in report["found"]["tools"]["evidence"]


@pytest.mark.parametrize("api", ["openai", "responses", "anthropic", "gemini", "ollama"])
def test_an_endpoint_is_examined_in_every_api(proxy: str, api: str) -> None:
    report = examined(proxy, "--upstream-api", api)

    assert api == report["upstream_api"]
    assert ["yes", "yes", "yes", "yes"] == verdicts(report, "reply", "usage", "stream", "system")
    assert "yes" == report["found"]["images"]["verdict"]  # the proxy writes a line of text in place of each
    assert "ignored" not in report["found"]["tools"]["evidence"]


async def test_the_embedded_model_is_examined_although_it_supports_no_constraint() -> None:
    async with serve_model("numpy") as served:
        report = await asyncio.to_thread(examined, served.url)

    assert ("generic", "openai") == (report["server"], report["upstream_api"])
    assert ["no", "no", "no"] == verdicts(report, "grammar", "schema", "structural_tag")
    assert ["yes", "yes", "yes"] == verdicts(report, "reply", "system", "stop")
    assert "off" == report["set"]["constrain"]


def test_the_best_settings_are_recommended_with_the_reason(trained_server: LlamaServer) -> None:
    report = examined(trained_server.url, "--category", "commands", "--cases", "8")
    candidates = {candidate["name"]: candidate for candidate in report["candidates"]}

    assert {"function_call", "bare_json", "fenced_json", "pythonic", "hermes"} <= set(candidates)
    assert {8} == {candidate["cases"] for candidate in candidates.values()}
    assert "written" == candidates["function_call"]["probe"]
    assert candidates["function_call"]["prompt_tokens"] > 100
    assert candidates["function_call"]["right"] >= 7
    assert "function_call" == report["dialect"] == report["set"]["dialect"]
    assert (True, True, True) == (report["complete"], report["decided"], report["kept"])
    assert any("bare_json: " in choice["reason"] for choice in report["choices"])


def test_a_quick_run_sends_the_quick_probes_only(trained_server: LlamaServer) -> None:
    report = examined(trained_server.url, "--quick")

    assert ["reply", "usage", "stream", "context", "system", "images"] == [
        finding["probe"] for finding in report["findings"]
    ]
    assert "function_call" == report["dialect"]


def test_a_random_model_calls_nothing_with_any_settings(random_server: LlamaServer) -> None:
    outcome = fcshim("doctor", random_server.url, *PROBES_ONLY)

    assert (1, "") == (outcome.code, outcome.err)
    assert "no candidate had a correct call; a required call (tool_choice) is still possible" in outcome.out
    assert "asked in hermes" in outcome.out


def test_serve_works_with_the_written_settings(program: Path, tmp_path: Path) -> None:
    with templated(program, tmp_path, templates.REFUSING_SYSTEM) as server:
        file = tmp_path / "found.toml"
        outcome = fcshim("doctor", server.url, "--write", file, "--upstream-key", "a-secret-key-of-ours", *CASES)
        model = load_config(file=file).for_model("any")
        reply = _through_serve(file, tmp_path)
        again: CliResult = fcshim("doctor", server.url, "--write", file)
        forced: CliResult = fcshim("doctor", server.url, "--write", file, "--force", "--quick", *CASES)

    assert 0 == outcome.code, outcome.err
    assert ("no-system+text-only", "prompt", "function_call") == (model.profile, model.tools, model.dialect)
    assert "a-secret-key-of-ours" not in file.read_text() + outcome.out
    assert ["get_weather"] == [call["function"]["name"] for call in reply["tool_calls"]]
    assert {"city": "Paris"} == json.loads(reply["tool_calls"][0]["function"]["arguments"])
    assert (2, 0) == (again.code, forced.code)
    assert "--force" in again.err


def _through_serve(file: Path, folder: Path) -> dict[str, Any]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "fcshim", "serve", "--config", file, "--port", str(port)]
    asked = {
        "model": "any",
        "messages": [{"role": "user", "content": "call get_weather with city=Paris"}],
        "tools": [WEATHER],
        "tool_choice": "required",
    }
    with serving(command, url, folder / "serve.log"):
        answer = httpx.post(f"{url}/v1/chat/completions", json=asked, timeout=60, trust_env=False)
    message: dict[str, Any] = answer.raise_for_status().json()["choices"][0]["message"]
    return message


def test_the_context_length_is_measured(program: Path, tmp_path: Path) -> None:
    with running(program, TINY, tmp_path, context=1024) as server:
        report = examined(server.url, "--quick", "--measure-context", "120")

    assert [1024, 1024] == [report["found"][probe]["value"] for probe in ("context", "measured_context")]
    assert "exceeds the available context size" in report["found"]["measured_context"]["evidence"]
    assert 716 == report["set"]["prompt_budget"]
