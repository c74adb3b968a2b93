"""Repetitions whose open parses grow with each character are found."""

import pytest

from fcshim.constrain.ambiguity import analyse_expression
from fcshim.constrain.regex import read_regex


@pytest.mark.parametrize(
    ("text", "ends", "restarts"),
    [
        (r"^[a-z]+(-[a-z]+)*$", True, True),
        (r"^(a|b)*$", True, True),
        (r"^(a{1,3}b)*$", True, True),
        (r"^[a-z.]+\.[a-z]+$", False, True),
        (r"^(a*|ab*)$", False, True),
        (r"^a?a?a?$", True, True),
        (r"^(a+)+$", True, False),
        (r"^(a|ab)*$", True, False),
        (r"^(a?)*$", True, False),
        (r"^(a?){9}$", True, True),
    ],
)
def test_ambiguous_ends_and_restarts_of_repetitions_are_found(text: str, *, ends: bool, restarts: bool) -> None:
    found = analyse_expression(read_regex(text))

    assert (ends, restarts) == (found.ends_determined, found.restarts_determined)
