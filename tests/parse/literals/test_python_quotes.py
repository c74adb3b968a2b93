"""Which quote ends a string."""

import pytest

from fcshim.parse.end_markers import compile_end_markers
from fcshim.parse.literals.python_quotes import LOOK_AHEAD, ends_string

MARKER = compile_end_markers(("<|end|>",))
CALL = ")]"
"""What closes an argument's value in a list of calls."""


@pytest.mark.parametrize(
    "behind",
    [
        ", b=1", ", 'c'", ", 5]", ", **{", ",)", ",\n  # so", ")]", ") ]", "), g(", ")<|end|>", "<|end|>",
        " 'b'", " r'b'", "#c",
        " # c", "]", ", True)", ", x)", " + 'b'", "*3", " % x", ".upper()", "[0]", " if x", "and 'b'", " == 1",
        "f'b'", " . upper(", " " * LOOK_AHEAD + "x",
    ],
)  # fmt: skip
def test_a_quote_ends_the_string_before_what_can_follow_one(behind: str) -> None:
    assert ends_string(behind + " ", 0, CALL, MARKER, may_be_key=False)


@pytest.mark.parametrize(
    "behind",
    [
        "s fine",
        " bowl",
        ", he said",
        ". Then",
        "! ",
        "?)",
        "}",
        "; x",
        "$",
        ")'",
        ":",
        " ifx ",
        "'s "[1:],
    ],
)
def test_any_other_quote_is_content(behind: str) -> None:
    assert ends_string(behind + " x", 0, CALL, compile_end_markers(()), may_be_key=False) is False


@pytest.mark.parametrize(
    "behind", ["", " ", ",", ", ", ", b", ", b ", ", b=", ")", ")]", "<|e", ".", "=", " wor", " i", ", -"]
)
def test_it_waits_while_the_next_character_may_decide(behind: str) -> None:
    assert ends_string(behind, 0, CALL, MARKER, may_be_key=False) is None


def test_a_colon_follows_a_key() -> None:
    assert ends_string(": 1", 0, "})", MARKER, may_be_key=True)


def test_a_key_follows_a_value_in_a_dict() -> None:
    assert ends_string(", k: 1", 0, "})", MARKER, may_be_key=False)
    assert ends_string(", k: 1", 0, CALL, MARKER, may_be_key=False) is False


@pytest.mark.parametrize("text", [", b=1)]", ")] so", "s fine", ". Then it", " + 'x'", ", he said 'no'", "<|end|>"])
def test_once_it_is_known_it_stays_so(text: str) -> None:
    found = [ends_string(text[:size], 0, CALL, MARKER, may_be_key=False) for size in range(len(text) + 1)]
    decided = [each for each in found if each is not None]

    assert len(set(decided)) == 1
    assert found[len(found) - len(decided) :] == decided
