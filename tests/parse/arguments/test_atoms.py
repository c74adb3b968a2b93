"""Conversion of atoms to JSON."""

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.parse.arguments.atoms import atom_to_json

NUMBERS = st.from_regex(
    r"[+-]?(0[xX]_?[0-9a-fA-F]{1,4}|0[bB][01]{1,4}|0[oO][0-7]{1,4}|[0-9_.]{1,6}([eE][+-]?[0-9_]{1,2})?)", fullmatch=True
)


@given(NUMBERS | st.from_regex(r"[\w.+-]{0,6}", fullmatch=True))
def test_a_python_number_keeps_its_value(token: str) -> None:
    try:
        expected = ast.literal_eval(token)
    except (SyntaxError, ValueError, TypeError):
        return
    strict = atom_to_json(token)

    if isinstance(expected, int | float):
        assert strict is not None
        assert expected == json.loads(strict)
    else:
        assert expected is None or strict is None


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "nan",
        "inf",
        "Infinity",
        "1j",
        "1_",
        "_1",
        "1__0",
        "0x",
        "0xg",
        "1e",
        "e5",
        ".",
        "+",
        "--1",
        "1-2",
        "None1",
        "007",
        "00",
        "-01",
        "00.5",
        "0_1",
    ],
)
def test_a_word_that_is_no_literal_is_rejected(token: str) -> None:
    assert atom_to_json(token) is None


@pytest.mark.parametrize(
    ("token", "expected"),
    [("-0", "-0"), ("0.5", "0.5"), ("5.", "5.0"), ("-.5", "-0.5"), ("TRUE", "true"), ("null", "null")],
)
def test_literals_beyond_python(token: str, expected: str) -> None:
    assert expected == atom_to_json(token)


def test_a_hexadecimal_number_too_long_for_python_to_print_is_rejected() -> None:
    assert atom_to_json("0x" + "f" * 4_000) is None
