"""The comparison of dialects: the candidates, the cases, the trials, and the choice of the best."""

from collections import Counter

import pytest

from fcshim import Client
from fcshim.errors import ConfigError
from fcshim.evaluate.comparison import Trial, best_trial, candidate_dialects, describe_trial, run_trial, select_cases
from fcshim.evaluate.result import NATIVE
from fcshim.evaluate.suite import DEFAULT_CATEGORIES
from fcshim.parse.dialects import DIALECTS
from tests.scripted import Script, scripted_upstream, text_reply


def trial(dialect: str, right: int, *, own: bool = False, prompt: int = 100, calls: int | None = None) -> Trial:
    return Trial(
        dialect=dialect,
        own=own,
        cases=24,
        right=right,
        calls_right=right if calls is None else calls,
        prompt_tokens=prompt,
    )


def test_the_models_own_dialect_is_the_first_candidate_and_none_is_repeated():
    own, unknown = (
        candidate_dialects("qwen3-8b", native=False, provider_api=False),
        candidate_dialects("x", native=True, provider_api=False),
    )

    assert ("hermes", "function_call", "bare_json", "pythonic") == own
    assert ("function_call", NATIVE, "bare_json", "pythonic", "hermes") == unknown
    assert {*candidate_dialects("gpt-oss-20b", native=False, provider_api=True)} <= {*DIALECTS}


def test_the_native_tools_of_a_provider_are_the_only_candidate():
    assert (NATIVE,) == candidate_dialects("claude", native=True, provider_api=True)


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([trial("hermes", 20, own=True), trial("bare_json", 23)], "bare_json"),
        ([trial("hermes", 22, own=True), trial("bare_json", 23)], "hermes"),
        ([trial("hermes", 10, own=True), trial("pythonic", 22, prompt=300), trial("bare_json", 21)], "bare_json"),
        ([trial("hermes", 8, own=True, calls=0), trial("bare_json", 5)], "bare_json"),
        ([trial("hermes", 8, own=True, calls=0), trial("bare_json", 0)], None),
        ([], None),
    ],
)
def test_the_best_trial_wins_and_ties_go_to_the_models_own_dialect_then_the_shortest_prompt(trials, expected):
    best = best_trial(trials)

    assert expected == (best and best.dialect)


def test_cases_are_selected_evenly_from_the_categories():
    cases = select_cases(DEFAULT_CATEGORIES, 24)
    counts = Counter(case.category for case in cases)

    assert 24 == len({case.id for case in cases})
    assert set(DEFAULT_CATEGORIES) == set(counts)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert cases == select_cases(DEFAULT_CATEGORIES, 24)
    assert not select_cases(DEFAULT_CATEGORIES, 0)
    with pytest.raises(ConfigError, match="simple"):
        select_cases(["simpel"], 1)


async def test_a_trial_ends_early_if_none_of_the_first_cases_is_right():
    silent = [text_reply("")] * 60
    async with scripted_upstream(*silent) as upstream, Client(upstream.url, model="m", dialect="hermes") as client:
        cases = select_cases(DEFAULT_CATEGORIES, 20)
        done = await run_trial("hermes", client, cases, lambda _: None, own=True, max_tokens=10)

    assert ("none of the first 8 was right", 8, 0) == (done.problem, done.cases, done.right)


@pytest.mark.parametrize("good", [0, 8])
async def test_a_failing_endpoint_ends_the_trial_and_is_its_problem(good):
    broken = Script((b'{"error":"out of memory"}',), 500)
    scripts = [text_reply("I have no tool for that.")] * good + [broken] * 60
    async with scripted_upstream(*scripts) as upstream, Client(upstream.url, model="m", dialect="hermes") as client:
        done = await run_trial(
            "hermes", client, select_cases(["no_tool_fits"], 30), lambda _: None, own=True, max_tokens=10
        )

    assert "out of memory" in done.problem
    assert (good, good + done.mistakes["error"]) == (done.right, done.cases)
    assert done.cases < 30
    assert describe_trial(done).startswith(f"{good} of {done.cases} right")
    assert describe_trial(done).endswith(f"({done.mistakes['error']} error)")
