"""fcshim reads the inputs on which other parsers fail, and docs/comparison.md says what was measured."""

import re
from pathlib import Path

import pytest

from fcshim.testing.conformance import ConformanceCase, judge, load
from tests.conformance.readers import fcshim, installed
from tests.conformance.table import table

CASES = load()
PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fcshim_reads_every_input_right(case: ConformanceCase) -> None:
    assert [judge(case, result) for result in fcshim([case])] == ["right"]


def test_peers_give_a_result_for_every_case() -> None:
    for read in installed().values():
        assert len(read(CASES)) == len(CASES)


def test_a_missing_call_is_lost_and_an_unexpected_one_is_wrong() -> None:
    case = CASES[0]
    right = fcshim([case])[0]

    assert [judge(case, result) for result in (right, type(right)([], ""), type(right)([{"name": "x"}], ""))] == [
        "right",
        "lost",
        "wrong",
    ]


@pytest.mark.parametrize("origin", ["shims", "engines"])
def test_every_input_is_in_the_table_of_the_documentation(origin: str) -> None:
    cases = [case for case in CASES if case.origin == origin]
    ours = table({"fcshim": ["right"] * len(cases)}, cases).splitlines()
    rows = [re.sub(r"^((?:\|[^|]*){2}\|).*", r"\1", line) for line in PAGE.read_text(encoding="utf-8").splitlines()]

    assert [line for line in ours[2:] if line not in rows] == []
