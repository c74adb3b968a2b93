"""Every vector, in every way a stream can be cut."""

import pytest

from tests.parse.cases import VECTORS, Case, check, load

LATER = "tolerance_later"
"""What the tolerance of further dialects demands; `python -m tests.parse` reports on it."""

CASES = [
    pytest.param(case, id=f"{path.stem}: {case.name}")
    for path in sorted(VECTORS.glob("*.json"))
    if path.stem != LATER
    for case in load(path.stem)
]


@pytest.mark.parametrize("case", CASES)
def test_a_vector_means_the_same_under_every_split(case: Case) -> None:
    check(case)


def test_names_of_vectors_are_unique() -> None:
    for path in VECTORS.glob("*.json"):
        names = [case.name for case in load(path.stem)]

        assert len(set(names)) == len(names), path.stem
