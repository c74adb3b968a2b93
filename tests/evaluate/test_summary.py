"""The summary of results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.evaluate.summary import rate, summarise
from tests.evaluate.results import result


@pytest.mark.parametrize(
    ("right", "tried", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_the_interval_is_the_wilson_interval(right, tried, low, high):
    """The last row is the example of Newcombe, Statistics in Medicine 17 (1998), table I."""
    made = rate(right, tried)

    assert (low, high) == (pytest.approx(made.low, abs=5e-5), pytest.approx(made.high, abs=5e-5))


@given(st.integers(1, 10_000).flatmap(lambda tried: st.tuples(st.integers(0, tried), st.just(tried))))
def test_the_share_is_inside_its_interval(counted):
    made = rate(*counted)

    assert 0 <= made.low <= made.share <= made.high <= 1


def test_without_results_the_interval_is_everything():
    made = rate(0, 0)

    assert (0, 0, 0.0, 1.0) == (made.right, made.tried, made.low, made.high)


def test_each_dialect_and_category_is_counted_separately():
    results = [
        result("simple-001", seconds=1.0, input_tokens=100, output_tokens=10),
        result("simple-002", "wrong_tool", seconds=3.0, input_tokens=200, output_tokens=20),
        result("parallel-001", "error", seconds=60.0),
        result("simple-001", dialect="native"),
    ]
    hermes, native = summarise(results)

    assert ("hermes", 1, 3) == (hermes.dialect, hermes.total.right, hermes.total.tried)
    assert {"simple": (1, 2), "parallel": (0, 1)} == {
        name: (each.right, each.tried) for name, each in hermes.categories.items()
    }
    assert {"right": 1, "wrong_tool": 1, "error": 1} == hermes.verdicts
    assert (150, 15, 2.0) == (hermes.input_tokens, hermes.output_tokens, hermes.seconds)
    assert ("native", 1) == (native.dialect, native.total.right)


def test_errors_alone_have_no_cost():
    (made,) = summarise([result(verdict="error", seconds=9.0)])

    assert (0, 0, 0) == (made.input_tokens, made.output_tokens, made.seconds)
