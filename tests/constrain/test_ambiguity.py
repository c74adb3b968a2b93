"""What a sampler can follow is told from what opens more ways with each character."""

import pytest

from fcshim.constrain.ambiguity import analyse_expression
from fcshim.constrain.regex import read_regex


@pytest.mark.parametrize(
    ("text", "clear", "turns"),
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
def test_it_is_known_where_long_repetitions_end_and_begin_anew(text: str, *, clear: bool, turns: bool) -> None:
    found = analyse_expression(read_regex(text))

    assert (clear, turns) == (found.clear, found.turns)
