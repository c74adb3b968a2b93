"""Coding agents as clients of `fcshim serve` in front of an endpoint that refuses all but text.

Each is started without a terminal and carries out a plan (`agents/plan.py`); what counts is the files that its tools
leave. Agents that `python -m tests.clients.environments` has not installed are skipped.
"""

import itertools

import pytest

from tests.clients.agents.dialects import NOTATIONS
from tests.clients.agents.model import ScriptedModel
from tests.clients.agents.plan import Plan
from tests.clients.agents.run import AgentRunner
from tests.clients.agents.table import AGENTS
from tests.clients.environments import agent_version, missing
from tests.engine.proxy import proxying
from tests.scripted import model_list, scripted_upstream

_DIALECTS = itertools.cycle(NOTATIONS)
_WAYS = {name: list(itertools.product(agent.apis, agent.models)) for name, agent in AGENTS.items()}
CASES = [
    (name, api, model, next(_DIALECTS))
    for name, ways in _WAYS.items()
    for api, model in ways
    for _ in range(1 if len(ways) > 1 else 2)
]
"""Each agent in at least two dialects, with each of its APIs."""


@pytest.mark.parametrize(("name", "api", "model", "dialect"), CASES, ids=["-".join(case) for case in CASES])
async def test_an_agent_carries_out_a_plan(name, api, model, dialect, tmp_path, record_property):
    if problem := missing(name):
        pytest.skip(problem)
    agent, plan = AGENTS[name], Plan(tmp_path / "work")
    described = {"client": name, "version": agent_version(name), "api": api, "model": model, "dialect": dialect}
    for key, value in described.items():
        record_property(key, value)
    plan.write_files()
    script = ScriptedModel(NOTATIONS[dialect], agent.tools, plan.parts(), agent.json_results)
    async with scripted_upstream(respond=script.respond, listing=model_list(model)) as upstream:
        with proxying(upstream.url, tmp_path, "--dialect", dialect) as url:
            runner = AgentRunner(name, agent, api, model, url, tmp_path / "home", plan.folder)
            runner.write_settings()
            for part in range(2 if agent.resume else 1):
                outcome = await runner.run(resumed=part > 0)

                assert 0 == outcome.status, outcome.output
                assert plan.files(part + 1) == plan.found(part + 1), outcome.output
                assert plan.last_words()[part] in outcome.output, outcome.output
    assert [] == script.refused
