"""Which way of asking a model does best: the same cases in every candidate dialect, and by the endpoint's own tools.

Rule: ways that are as good as the best, give or take one case, are told apart by what the model was made for, then by
the length of the prompt: one case is luck.
Neighbours: `runner` asks the cases, `prescription` takes the way that won; the doctor decides which ways are tried.
"""

from collections.abc import Callable, Sequence
from itertools import chain, zip_longest

import msgspec

from fcshim.client import Client
from fcshim.errors import UpstreamError
from fcshim.evaluate.case import Case
from fcshim.evaluate.result import NATIVE, Result, count_right, count_verdicts
from fcshim.evaluate.runner import CONCURRENCY, DEFAULT_SAMPLING, evaluate
from fcshim.evaluate.suite import load_cases
from fcshim.parse.dialects.models import dialect_for

COMMON_DIALECTS = ("function_call", "bare_json", "pythonic", "hermes")
"""Dialects that models follow that were trained on none, or on another."""
_TIE_MARGIN = 1
"""Cases that make no difference."""
_FIRST_BATCH = 8
"""Cases after which a way that got none of them right is given up."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """How one way did. `calls_right` are the right answers that were calls; `mistakes` are counted by their kind."""

    way: str
    own: bool
    cases: int
    right: int
    calls_right: int
    prompt_tokens: int
    """Of a prompt, on average."""
    mistakes: dict[str, int] = {}
    problem: str = ""
    """Why it was given up, where it was."""


def candidate_dialects(model: str, *, native: bool, provider_api: bool) -> tuple[str, ...]:
    """Name the ways to be tried: the model's own comes first, which its name tells, or the API that was made for it.

    `native`: the endpoint's own tools may work; `faithful`: they are the provider's, so nothing else is tried then.
    """
    if native and provider_api:
        return (NATIVE,)
    return tuple(dict.fromkeys((dialect_for(model).name, *([NATIVE] if native else []), *COMMON_DIALECTS)))


def select_cases(categories: Sequence[str], count: int) -> list[Case]:
    """Give `count` cases, as evenly from the categories as they have them. Raises `ConfigError`."""
    by_category = [load_cases([category], count) for category in categories]
    mixed = [case for case in chain.from_iterable(zip_longest(*by_category)) if case is not None]
    return mixed[:count]


async def run_trial(
    dialect: str,
    client: Client,
    cases: Sequence[Case],
    on_result: Callable[[Result], None],
    *,
    own: bool,
    max_tokens: int,
    concurrency: int = CONCURRENCY,
) -> Trial:
    """Ask the cases one way; one that gets none of the first ones right is given up, as an endpoint that fails is."""
    results: list[Result] = []

    def note(result: Result) -> None:
        results.append(result)
        on_result(result)

    sampling = {**DEFAULT_SAMPLING, "max_tokens": max_tokens}
    problem = ""
    try:
        for some in (cases[:_FIRST_BATCH], cases[_FIRST_BATCH:]):
            await evaluate(client, some, dialect=dialect, sampling=sampling, concurrency=concurrency, on_result=note)
            if not any(result.right for result in results) and len(results) < len(cases):
                failed = f": {results[-1].problem}" if results[-1].problem else ""
                problem = f"none of the first {len(results)} was right{failed}"
                break
    except UpstreamError as error:
        problem = error.message
    return _summarize_trial(dialect, results, problem, own=own)


def best_trial(trials: Sequence[Trial]) -> Trial | None:
    """Give the way to be taken; None where none ever called rightly."""
    able = [trial for trial in trials if trial.calls_right]
    most = max((trial.right for trial in able), default=0)
    near = [trial for trial in able if trial.right >= most - _TIE_MARGIN]
    return min(near, key=lambda trial: (not trial.own, trial.prompt_tokens), default=None)


def describe_trial(trial: Trial) -> str:
    """Say how a way did."""
    mistakes = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in trial.mistakes.items())
    length = f", {trial.prompt_tokens} tokens a prompt" if trial.prompt_tokens else ""
    return f"{trial.right} of {trial.cases} right{length}" + (f" ({mistakes})" if mistakes else "")


def _summarize_trial(dialect: str, results: Sequence[Result], problem: str, *, own: bool) -> Trial:
    counted = [result.input_tokens for result in results if result.input_tokens]
    return Trial(
        way=dialect,
        own=own,
        cases=len(results),
        right=count_right(results),
        calls_right=count_right(result for result in results if result.calls),
        prompt_tokens=sum(counted) // len(counted) if counted else 0,
        mistakes=count_verdicts(result for result in results if not result.right),
        problem=problem,
    )
