"""Summarises results: rates with confidence intervals by category, counts of verdicts, tokens and seconds.

A summary has exact numbers; the output rounds them.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, median

import msgspec

from fcshim.evaluate.result import Result, count_right, count_verdicts

_Z = 1.959963984540054
"""Standard deviations around the mean that contain 95 % of a normal distribution."""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """The number and share of right results, and the 95 % Wilson score interval of the share."""

    right: int
    tried: int
    share: float
    low: float
    high: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of one dialect. Tokens are means per case, seconds the median."""

    dialect: str
    total: Rate
    categories: dict[str, Rate]
    verdicts: dict[str, int]
    input_tokens: float
    output_tokens: float
    seconds: float


def summarise(results: Sequence[Result]) -> list[Summary]:
    """Return a summary for each dialect, with dialects and categories in the order of their first result."""
    return [
        _summary(dialect, [result for result in results if result.dialect == dialect])
        for dialect in dict.fromkeys(result.dialect for result in results)
    ]


def rate(right: int, tried: int) -> Rate:
    """Return the rate with its interval (Wilson's score interval, without continuity correction)."""
    if not tried:
        return Rate(right=0, tried=0, share=0.0, low=0.0, high=1.0)
    share = right / tried
    spread = _Z * math.sqrt(share * (1 - share) / tried + (_Z / (2 * tried)) ** 2)
    middle, scale = share + _Z**2 / (2 * tried), 1 + _Z**2 / tried
    # Where all or none are right the share is an end of its interval, and rounding must not move it outside.
    low, high = max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
    return Rate(right=right, tried=tried, share=share, low=min(low, share), high=max(high, share))


def _summary(dialect: str, results: Sequence[Result]) -> Summary:
    categories = dict.fromkeys(result.category for result in results)
    answered = [result for result in results if result.verdict != "error"]
    return Summary(
        dialect=dialect,
        total=_rate(results),
        categories={name: _rate([each for each in results if each.category == name]) for name in categories},
        verdicts=count_verdicts(result.verdict for result in results),
        input_tokens=_mean(result.input_tokens for result in answered),
        output_tokens=_mean(result.output_tokens for result in answered),
        seconds=median(result.seconds for result in answered) if answered else 0.0,
    )


def _rate(results: Sequence[Result]) -> Rate:
    return rate(count_right(results), len(results))


def _mean(numbers: Iterable[int]) -> float:
    listed = list(numbers)
    return round(fmean(listed), 1) if listed else 0.0
