"""`fcshim eval` against a real engine."""

import json

from tests.cli.command import fcshim
from tests.engine.llama_server import LlamaServer

COMMANDS = ("--category", "commands", "--limit", 12, "--json")


def measured(url: str, *arguments: object) -> list[dict]:
    outcome = fcshim("eval", url, *COMMANDS, *arguments)

    assert (0, "") == (outcome.code, outcome.err)
    summaries: list[dict] = json.loads(outcome.out)["dialects"]
    return summaries


def test_a_trained_model_makes_most_of_the_calls(trained_server: LlamaServer) -> None:
    (summary,) = measured(trained_server.url)

    assert 12 == summary["total"]["tried"]
    assert summary["total"]["right"] >= 10
    assert summary["input_tokens"] > 100
    assert summary["seconds"] > 0


def test_dialects_are_distinguished(trained_server: LlamaServer) -> None:
    """The model knows only one format and always writes it; `rescue` would read it in any dialect."""
    options = ("--no-rescue", "--max-retries", 0, "--max-tokens", 200)
    own, other = measured(trained_server.url, "--dialect", "function_call", "--dialect", "pythonic", *options)

    assert ("function_call", "pythonic") == (own["dialect"], other["dialect"])
    assert own["total"]["low"] > other["total"]["high"]


def test_a_model_with_random_weights_makes_none(random_server: LlamaServer) -> None:
    (summary,) = measured(random_server.url, "--max-tokens", 60)

    assert 12 == summary["total"]["tried"]
    assert 0 == summary["total"]["right"]
    assert "error" not in summary["verdicts"]
