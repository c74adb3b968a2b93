"""The tests of another parser, which `plugin` collects.

Rule: a call that was not meant must not run, however the text is split; the calls of the cases must.
"""

import random

import pytest

from fcshim.messages import as_function
from fcshim.parse.dialects import DIALECTS
from fcshim.testing.conformance import ConformanceCase, judge, load
from fcshim.testing.mutations.seeds import make_seed
from fcshim.testing.mutations.table import MUTATIONS
from fcshim.testing.mutations.verdict import Delivered, can_be_seen, judge_mutant
from fcshim.testing.plugin import load_factory
from fcshim.testing.reader import MakeParser, read
from fcshim.testing.splits import splits

_DEFAULT_DIALECT = "hermes"


@pytest.fixture(scope="session")
def make_parser(pytestconfig: pytest.Config) -> MakeParser:
    """The factory of the parser."""
    return load_factory(pytestconfig)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with its cases, or with each mistake in each dialect."""
    names = metafunc.fixturenames
    if "case" in names:
        metafunc.parametrize("case", load(), ids=lambda case: case.name)
    if "mutation" in names:
        metafunc.parametrize("mutation", MUTATIONS)
    if "dialect" in names:
        metafunc.parametrize("dialect", metafunc.config.getoption("--fcshim-dialect") or [_DEFAULT_DIALECT])


def test_a_case_is_read_right(case: ConformanceCase, make_parser: MakeParser) -> None:
    """The calls that run and the text are those that the case expects."""
    result = read(make_parser, case.tools, _DEFAULT_DIALECT, case.pieces(), case.stop_reason)

    assert judge(case, result) == "right", f"{case.input!r}\nexpected {case.calls}\ngot      {result.calls}"


def test_a_case_is_read_the_same_from_every_split(case: ConformanceCase, make_parser: MakeParser) -> None:
    """The calls and the text do not depend on where the stream is cut."""
    whole = read(make_parser, case.tools, _DEFAULT_DIALECT, [case.input], case.stop_reason)
    for pieces in splits(case.input, random.Random(case.name)):
        result = read(make_parser, case.tools, _DEFAULT_DIALECT, pieces, case.stop_reason)

        assert whole == result, f"another split, another result: {pieces}"


def test_a_mistake_never_makes_a_call_that_was_not_meant(
    mutation: str, dialect: str, make_parser: MakeParser, pytestconfig: pytest.Config
) -> None:
    """Calls with one mistake are read as they were meant, or not at all; those without a mistake are read."""
    row = DIALECTS[dialect]
    for number in range(pytestconfig.getoption("--fcshim-seeds")):
        rng = random.Random(f"{number} {mutation} {dialect}")
        seed = make_seed(rng)
        mutant = MUTATIONS[mutation](seed, row, rng)
        if mutant is None or not can_be_seen(seed.tools, row, mutant):
            continue
        tools = [{"type": "function", "function": as_function(tool)} for tool in seed.tools]
        for pieces in ([mutant.text], list(mutant.text)):
            result = read(make_parser, tools, dialect, pieces, mutant.stop_reason)
            calls = [(call["name"], call["arguments"]) for call in result.calls]
            verdict = judge_mutant(Delivered(calls, failed=False), mutant, row)

            assert verdict != "wrong", f"{mutant.text!r}\nmeant {mutant.calls}\nruns  {calls}"
            assert verdict == "exact" or mutation != "no mistake", f"{mutant.text!r}\nruns only {calls}"
