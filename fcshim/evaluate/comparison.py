"""Compares dialects, and native tool calling, by running the same cases with each of them.

Rule: a difference of one case is chance. Among the trials within one case of the best, the model's own dialect wins,
then the shortest prompt.
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
from fcshim.model_defaults import defaults_for

COMMON_DIALECTS = ("function_call", "bare_json", "pythonic", "hermes")
"""Dialects that models can follow without training on them."""
_TIE_MARGIN = 1
"""A difference of so many right cases counts as a tie."""
_FIRST_BATCH = 8
"""Cases after which a trial ends if none of them is right."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one dialect. `own`: it is the model's own dialect; `dialect`: its name, or `native`.

    `calls_right` is the number of right results with calls, `mistakes` the number of other results by verdict.
    """

    dialect: str
    own: bool
    cases: int
    right: int
    calls_right: int
    prompt_tokens: int
    """The mean of all prompts."""
    mistakes: dict[str, int] = {}
    problem: str = ""
    """Why the trial ended early, or empty."""


def candidate_dialects(model: str, *, native: bool, provider_api: bool) -> tuple[str, ...]:
    """Return the dialects to compare; the first is the model's own.

    `native`: native tool calling may work. `provider_api`: the API is the model provider's, so with `native` nothing
    else is compared. The model's own dialect is derived from its name.
    """
    if native and provider_api:
        return (NATIVE,)
    return tuple(dict.fromkeys((defaults_for(model).dialect, *([NATIVE] if native else []), *COMMON_DIALECTS)))


def select_cases(categories: Sequence[str], count: int) -> list[Case]:
    """Return `count` cases, evenly from the categories as far as they have enough. Raises `ConfigError`."""
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
    """Run the cases in one dialect. The trial ends early if none of the first cases is right, or the endpoint fails."""
    results: list[Result] = []

    def note(result: Result) -> None:
        results.append(result)
        on_result(result)

    sampling = {**DEFAULT_SAMPLING, "max_tokens": max_tokens}
    problem = ""
    try:
        for batch in (cases[:_FIRST_BATCH], cases[_FIRST_BATCH:]):
            await evaluate(client, batch, dialect=dialect, sampling=sampling, concurrency=concurrency, on_result=note)
            if not any(result.right for result in results) and len(results) < len(cases):
                failed = f": {results[-1].problem}" if results[-1].problem else ""
                problem = f"none of the first {len(results)} was right{failed}"
                break
    except UpstreamError as error:
        problem = error.message
    return _summarize_trial(dialect, results, problem, own=own)


def best_trial(trials: Sequence[Trial]) -> Trial | None:
    """Return the best trial, or None if no trial has a right call."""
    # Without this filter a model that never calls would win with the cases that expect no call.
    calling = [trial for trial in trials if trial.calls_right]
    best_count = max((trial.right for trial in calling), default=0)
    ties = [trial for trial in calling if trial.right >= best_count - _TIE_MARGIN]
    return min(ties, key=lambda trial: (not trial.own, trial.prompt_tokens), default=None)


def describe_trial(trial: Trial) -> str:
    """Return the outcome in one phrase."""
    mistakes = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in trial.mistakes.items())
    length = f", {trial.prompt_tokens} tokens a prompt" if trial.prompt_tokens else ""
    return f"{trial.right} of {trial.cases} right{length}" + (f" ({mistakes})" if mistakes else "")


def _summarize_trial(dialect: str, results: Sequence[Result], problem: str, *, own: bool) -> Trial:
    counted = [result.input_tokens for result in results if result.input_tokens]
    return Trial(
        dialect=dialect,
        own=own,
        cases=len(results),
        right=count_right(results),
        calls_right=count_right(result for result in results if result.calls),
        prompt_tokens=sum(counted) // len(counted) if counted else 0,
        mistakes=count_verdicts(result for result in results if not result.right),
        problem=problem,
    )
