"""Law 7 for regular expressions: none of them takes exponential or quadratic time, whatever the text."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.prompt.escape import BUNDLED
from tests.examples import examples
from tests.fuzz.expressions import expressions, slow_text

pytestmark = [
    pytest.mark.security,
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a limit of CPU time needs POSIX signals"),
]

_SECONDS = 2.0
"""CPU time, a hundred times what these texts take: no measurement, but the end of a search that hangs."""
_EXPRESSIONS = expressions()
_TOKENS = (*'\\_ \n<[{("`~&|/=:,a', "&lt;", "\\u003c", "Action:")


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` after this much CPU time of the process; `re` looks for signals while it searches."""

    def end(*_: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


@pytest.mark.parametrize("pattern", _EXPRESSIONS.values(), ids=_EXPRESSIONS)
def test_no_expression_takes_more_than_linear_time(pattern: re.Pattern[str]):
    for seed in range(examples(40).max_examples):
        text = slow_text(pattern, Random(seed))
        with cpu_limit(_SECONDS):
            pattern.match(text)
            pattern.fullmatch(text)


@pytest.mark.parametrize("source", [r"(?:a|aa)*b", r"\s*;?\s*;?\s*;?\s*x", r"(a+)+\Z", r"[`~]+[^\n]*\n"])
def test_slow_expressions_are_found(source: str):
    """The generator finds expressions of the kinds that have been found in fcshim."""
    with pytest.raises(TimeoutError):
        _match_slow_texts(re.compile(source))


def _match_slow_texts(pattern: re.Pattern[str]) -> None:
    with cpu_limit(0.5):
        for seed in range(200):
            pattern.match(slow_text(pattern, Random(seed)))


@examples(30)
@given(unit=st.lists(st.sampled_from(_TOKENS), min_size=1, max_size=4).map("".join))
def test_escaping_takes_linear_time(unit: str):
    """A marker before the row lets it pass the test whether there is anything to escape."""
    text = "<function_call>" + (unit * 100_000)[:100_000]
    with cpu_limit(_SECONDS):
        BUNDLED.unescape(BUNDLED.escape(text))
