"""Which quote ends a string."""

import pytest

from fcshim.parse.end_markers import compile_end_markers
from fcshim.parse.literals.python_quotes import LOOK_AHEAD, ends_string

MARKER = compile_end_markers(("<|end|>",))
CALL = ")]"
"""The brackets that close an argument's value in a list of calls."""


@pytest.mark.parametrize(
    "following",
    [
        ", b=1", ", 'c'", ", 5]", ", **{", ",)", ",\n  # so", ")]", ") ]", "), g(", ")<|end|>", "<|end|>",
        " 'b'", " r'b'", "#c",
        " # c", "]", ", True)", ", x)", " + 'b'", "*3", " % x", ".upper()", "[0]", " if x", "and 'b'", " == 1",
        "f'b'", " . upper(", " " * LOOK_AHEAD + "x",
    ],
)  # fmt: skip
def test_a_quote_ends_the_string_where_the_next_text_can_follow_a_string(following: str) -> None:
    assert ends_string(following + " ", 0, CALL, MARKER, may_be_key=False)


@pytest.mark.parametrize(
    "following",
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
def test_any_other_quote_is_content(following: str) -> None:
    assert ends_string(following + " x", 0, CALL, compile_end_markers(()), may_be_key=False) is False


@pytest.mark.parametrize(
    "following", ["", " ", ",", ", ", ", b", ", b ", ", b=", ")", ")]", "<|e", ".", "=", " wor", " i", ", -"]
)
def test_the_decision_waits_while_the_next_character_matters(following: str) -> None:
    assert ends_string(following, 0, CALL, MARKER, may_be_key=False) is None


def test_a_colon_follows_a_key() -> None:
    assert ends_string(": 1", 0, "})", MARKER, may_be_key=True)


def test_a_key_follows_a_value_in_a_dict() -> None:
    assert ends_string(", k: 1", 0, "})", MARKER, may_be_key=False)
    assert ends_string(", k: 1", 0, CALL, MARKER, may_be_key=False) is False


@pytest.mark.parametrize("text", [", b=1)]", ")] so", "s fine", ". Then it", " + 'x'", ", he said 'no'", "<|end|>"])
def test_more_text_never_changes_a_decision(text: str) -> None:
    found = [ends_string(text[:size], 0, CALL, MARKER, may_be_key=False) for size in range(len(text) + 1)]
    decided = [each for each in found if each is not None]

    assert len(set(decided)) == 1
    assert found[len(found) - len(decided) :] == decided
