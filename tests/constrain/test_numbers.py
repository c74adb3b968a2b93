"""Numbers between bounds: every spelling with up to four decimals is admitted if, and only if, its value is within."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.constrain.grammar import ROOT, Grammar
from fcshim.constrain.keywords import Keywords
from fcshim.constrain.rules import Rules
from fcshim.constrain.scalars import ScalarWriter
from fcshim.constrain.value_syntax import JSON_SYNTAX
from fcshim.events import JSON
from tests.constrain.matcher import admits


def admitted(schema: dict[str, JSON], text: str) -> bool:
    rules = Rules()
    found = ScalarWriter(JSON_SYNTAX, rules, argument=False).number(Keywords((schema,)), whole=False)
    return found is not None and admits(Grammar({ROOT: found, **rules.rules}), text)


@pytest.mark.parametrize(
    ("schema", "texts", "refused"),
    [
        ({"exclusiveMinimum": 0}, "0.5 0.01 0.0001 1 1.0 12.25", "0 0.0 -0.5 -1 0.0000"),
        ({"exclusiveMaximum": 100}, "99.5 99.9999 99 -3.5 0.0 -0.5", "100 100.0 100.5"),
        ({"minimum": 1.5}, "1.5 1.50 1.75 2 2.25 1000000.5", "1 1.4999 0.5 -1.5"),
        ({"maximum": 2.5}, "2.5 2.4999 2 -7.125 2.0", "2.5001 2.6 3"),
        ({"minimum": 0, "maximum": 1}, "0 1 0.0 1.0 0.5 1.0000", "1.0001 -0.5 -0.0001"),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 1}, "0.5 0.0001 0.9999", "0 1 0.0 1.0"),
        ({"minimum": -1.5, "maximum": -0.25}, "-1.5 -1 -0.25 -0.9999 -1.0", "-0.2499 0 -1.5001 0.5 -0.0"),
        ({"minimum": -5, "exclusiveMaximum": 0}, "-0.5 -5 -4.75 -5.0 -0.0001", "0 -0.0 0.5 -5.0001"),
        ({"exclusiveMinimum": -0.5}, "-0.4999 0 -0.0 0.5", "-0.5 -0.5000 -1"),
        ({"minimum": 0.00001, "maximum": 0.00002}, "0.00001 0.000015 0.00002", "0 0.00003 0.0001 1"),
        ({"exclusiveMinimum": 1234567.25}, "1234567.2501 1234567.5 1234568", "1234567.25 1234567 1234566.9"),
        ({"minimum": 0.1, "maximum": 0.1}, "0.1 0.10", "0.1001 0 0.0999"),
        ({"minimum": 3, "exclusiveMaximum": 4}, "3 3.0 3.5 3.9999", "4 4.0 2.9"),
    ],
)
def test_the_units_beside_a_bound_are_admitted(schema: dict[str, Any], texts: str, refused: str) -> None:
    assert texts.split() == [text for text in texts.split() if admitted(schema, text)]
    assert [] == [text for text in refused.split() if admitted(schema, text)]


_hundredths = st.integers(-1200, 1200).map(lambda number: Fraction(number, 100)) | st.integers(-12, 12).map(Fraction)
_LOWER, _UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")


@given(_hundredths, _hundredths, st.sampled_from(_LOWER), st.sampled_from(_UPPER), _hundredths, st.integers(0, 4))
@example(Fraction(0), Fraction(1), "exclusiveMinimum", "exclusiveMaximum", Fraction(1, 2), 1)
def test_a_number_is_admitted_if_it_is_within(
    low: Fraction, high: Fraction, lower: str, upper: str, number: Fraction, places: int
) -> None:
    text = f"{float(number):.{places}f}"
    value = Fraction(text)
    within = (value >= low if lower == "minimum" else value > low) and (
        value <= high if upper == "maximum" else value < high
    )
    # An integer has one spelling without a fraction: no -0.
    expected = within and text != "-0"

    assert expected == admitted({lower: float(low), upper: float(high)}, text)


STEPS = [
    "2",
    "4",
    "5",
    "8",
    "10",
    "20",
    "25",
    "50",
    "100",
    "125",
    "1000",
    "10000",
    "0.5",
    "0.25",
    "0.1",
    "0.01",
    "0.05",
    "0.125",
]
WRITTEN = [
    *(
        "0",
        "1",
        "2",
        "3",
        "4",
        "5",
        "7",
        "8",
        "10",
        "15",
        "16",
        "20",
        "25",
        "50",
        "75",
        "99",
        "100",
        "125",
        "150",
        "1000",
    ),
    *(
        "1005",
        "10000",
        "123450",
        "0.5",
        "0.25",
        "0.75",
        "0.1",
        "0.01",
        "0.05",
        "2.5",
        "12.05",
        "12.5",
        "1.001",
        "0.001",
        "0.125",
    ),
]


@pytest.mark.parametrize("bounds", [{}, {"minimum": 0}, {"exclusiveMinimum": 0}], ids=["all", "natural", "positive"])
@pytest.mark.parametrize("step", STEPS)
def test_the_multiples_of_a_step_are_told_by_their_last_digits(step, bounds):
    schema = {"multipleOf": float(step) if "." in step else int(step), **bounds}
    texts = [sign + text for text in WRITTEN for sign in ("", "-") if sign + text != "-0"]
    expected = [
        text
        for text in texts
        if Fraction(text) % Fraction(step) == 0
        and (not bounds or not text.startswith("-"))
        and (text != "0" or "exclusiveMinimum" not in bounds)
    ]

    assert expected == [text for text in texts if admitted(schema, text)]
