"""Measures how exactly the tiny model copies through fcshim: random commands that it was not trained on, greedy.

    python -m fcshim.demo.evaluate [--upstream URL] [--engine numpy] [--count 200] [--seed N]

Rule: only what an OpenAI client receives counts: names and arguments of `tool_calls`, or the text.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import httpx

from fcshim.demo.conversations import Scenario, SyntheticExchange, make_exchange, make_scenario
from fcshim.demo.random_values import to_json
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import JSON

if TYPE_CHECKING:
    from fcshim.demo.serving import EngineName

SEED = 20_260_801
"""The training does not use this seed, so the model has not seen these commands."""
PASS_SHARE = 0.95
"""The share of one-call commands that must be exact."""


@dataclass(slots=True)
class Score:
    """The number of exact results, and the first three failures as (expected, got)."""

    tried: int = 0
    exact: int = 0
    failures: list[tuple[JSON, JSON]] = field(default_factory=list)

    def add(self, expected: JSON, got: JSON) -> None:
        """Count one result."""
        self.tried += 1
        self.exact += expected == got
        if expected != got and len(self.failures) < 3:
            self.failures.append((expected, got))

    @property
    def share(self) -> float:
        """The share of exact results."""
        return self.exact / self.tried if self.tried else 0.0


async def evaluate(proxy: str, count: int, seed: int = SEED, model: str = "fcshim-tiny") -> dict[str, Score]:
    """Send `count` one-call commands, and a quarter as many of each other kind, to the proxy at this URL."""
    plan = {
        "one call": (count, 1, _calls),
        "two calls": (count // 4, 2, _calls),
        "answer after a result": (count // 4, 1, _conclusion),
        "plain echo": (count // 4, 0, _echo),
    }
    scores: dict[str, Score] = {}
    async with httpx.AsyncClient(base_url=proxy, trust_env=False, timeout=60) as client:
        for position, (kind, (times, calls, probe)) in enumerate(plan.items()):
            rng = Random(seed + position)
            scores[kind] = Score()
            for _ in range(times):
                scenario = make_scenario(rng, plain=True)
                messages, expected = probe(scenario, make_exchange(rng, scenario, calls))
                scores[kind].add(expected, await _ask(client, model, scenario, messages))
    return scores


def _calls(scenario: Scenario, exchange: SyntheticExchange) -> tuple[list[JSON], JSON]:
    return _first_messages(scenario, exchange), [(call.name, call.arguments) for call in exchange.calls]


def _echo(scenario: Scenario, exchange: SyntheticExchange) -> tuple[list[JSON], JSON]:
    return _first_messages(scenario, exchange), exchange.echo


def _conclusion(scenario: Scenario, exchange: SyntheticExchange) -> tuple[list[JSON], JSON]:
    call = exchange.calls[0]
    past = {"id": "call_1", "type": "function", "function": {"name": call.name, "arguments": to_json(call.arguments)}}
    messages = [
        *_first_messages(scenario, exchange),
        {"role": "assistant", "content": None, "tool_calls": [past]},
        {"role": "tool", "tool_call_id": "call_1", "content": call.result},
    ]
    return messages, f"{call.name} returned {call.result}"


def _first_messages(scenario: Scenario, exchange: SyntheticExchange) -> list[JSON]:
    system = [{"role": "system", "content": scenario.instructions}] if scenario.instructions else []
    return [*system, {"role": "user", "content": exchange.command}]


async def _ask(client: httpx.AsyncClient, model: str, scenario: Scenario, messages: list[JSON]) -> JSON:
    tools = []
    for tool in scenario.tools:
        described = {"description": tool.description} if tool.description else {}
        tools.append({"type": "function", "function": {"name": tool.name, **described, "parameters": tool.parameters}})
    body = {
        "model": model,
        "messages": messages,
        "tools": tools,
        "temperature": 0,
        "max_tokens": 400,
    }
    response = await client.post("/v1/chat/completions", json=body)
    if not response.is_success:
        raise UpstreamError(f"the proxy answered {response.status_code}: {response.text[:300]}")
    message = response.json()["choices"][0]["message"]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return [(call["name"], json.loads(call["arguments"])) for call in calls] or message["content"]


@asynccontextmanager
async def _proxy(upstream: str | None, engine: "EngineName") -> AsyncIterator[str]:
    from fcshim.demo.serving import serve_model, serve_proxy  # noqa: PLC0415 - after the number of threads is set

    if upstream is not None:
        async with serve_proxy(upstream) as url:
            yield url
    else:
        async with serve_model(engine) as served, serve_proxy(served.url) as url:
            yield url


async def _run(options: argparse.Namespace) -> int:
    async with _proxy(options.upstream, options.engine) as url:
        scores = await evaluate(url, options.count, options.seed)
    for kind, score in scores.items():
        sys.stdout.write(f"{kind:<22} {score.exact:>4} of {score.tried:<4} {score.share:7.1%}\n")
        for expected, got in score.failures if options.misses else ():
            sys.stdout.write(f"    expected {expected}\n    got      {got}\n")
    return 0 if scores["one call"].share >= PASS_SHARE else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the evaluation and return the exit code: 0 if the share of exact one-call commands is high enough."""
    parser = argparse.ArgumentParser(prog="python -m fcshim.demo.evaluate", description=__doc__.partition("\n")[0])
    parser.add_argument("--upstream", help="an endpoint that already serves the model (default: start one)")
    parser.add_argument("--engine", choices=["auto", "numpy", "llama-server"], default="auto", help="what to start")
    parser.add_argument(
        "--count", type=int, default=200, help="one-call commands; a quarter as many of each other kind"
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--misses", action="store_true", help="show the first failures of each kind")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices this small are slower on several threads
    try:
        return asyncio.run(_run(parser.parse_args(arguments)))
    except FcshimError as error:
        sys.stderr.write(f"{error.message}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
