"""Trailing text after a complete body; `vectors/remarks.json` tests it in the dialects of the table."""

import pytest

from fcshim.parse.dialect import Body, Dialect
from fcshim.parse.json.body import JsonShape
from fcshim.parse.literals.python_body import PythonCalls
from fcshim.parse.markers import MarkerSet, compile_end_markers
from fcshim.parse.trailing_text import TrailingStatus, TrailingText
from tests.parse.cases import Case, check
from tests.parse.laws import Piece

F: Piece = {"call": "f", "arguments": "{}"}
STOP: Piece = {"stop": "tool_use"}


def trailing_text() -> TrailingText:
    return TrailingText(compile_end_markers(("</c>", "%%")), MarkerSet(("<c>", "</c>", "%%")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" so", (TrailingStatus.OPEN, 3)),
        (" so <", (TrailingStatus.OPEN, 4)),
        (" so </c> x", (TrailingStatus.CLOSED, 8)),
        (" so <c> x", (TrailingStatus.TEXT, 4)),
        ("%%", (TrailingStatus.CLOSED, 2)),
        ("x" * 200 + "</c>", (TrailingStatus.CLOSED, 204)),
        ("x" * 201 + "</c>", (TrailingStatus.TEXT, 205)),
        ("x" * 999, (TrailingStatus.TEXT, 999)),
    ],
)
def test_the_next_marker_decides_the_status(text: str, expected: tuple[TrailingStatus, int]) -> None:
    assert expected == trailing_text().read(text, 0)


def test_white_space_counts_towards_the_limit() -> None:
    trailing = trailing_text()
    trailing.add(" " * 201)

    assert (TrailingStatus.TEXT, 1) == trailing.read("x</c>", 0)
    assert " " * 201 + "x" == trailing.text()


@pytest.mark.parametrize(("body", "call"), [(JsonShape(), '{"name": "f"}'), (PythonCalls(), "f()")])
def test_a_marker_that_opens_and_closes_ends_the_body(body: Body, call: str) -> None:
    dialect = Dialect(name="own", summary="", open="%%", close="%%", body=body)
    text = f"%%{call} so%%, then %%{call}%%"

    check(Case("both", text, [F, {"text": ", then "}, F, STOP], options={"dialect": dialect}))
