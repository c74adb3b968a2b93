"""What stands behind a complete body; `vectors/remarks.json` has the dialects of the table."""

import pytest

from fcshim.parse.dialect import Body, Dialect
from fcshim.parse.end_markers import compile_end_markers
from fcshim.parse.json.body import JsonShape
from fcshim.parse.literals.python_body import PythonCalls
from fcshim.parse.markers import MarkerSet
from fcshim.parse.trailing_text import TrailingStatus, TrailingText
from tests.parse.cases import Case, check
from tests.parse.laws import Piece

F: Piece = {"call": "f", "arguments": "{}"}
STOP: Piece = {"stop": "tool_use"}


def remark() -> TrailingText:
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
def test_a_marker_says_what_a_remark_is(text: str, expected: tuple[TrailingStatus, int]) -> None:
    assert expected == remark().read(text, 0)


def test_white_space_counts_as_well() -> None:
    behind = remark()
    behind.add(" " * 201)

    assert (TrailingStatus.TEXT, 1) == behind.read("x</c>", 0)
    assert " " * 201 + "x" == behind.text()


@pytest.mark.parametrize(("body", "call"), [(JsonShape(), '{"name": "f"}'), (PythonCalls(), "f()")])
def test_a_marker_that_opens_and_closes_closes(body: Body, call: str) -> None:
    dialect = Dialect(name="own", summary="", open="%%", close="%%", body=body)
    text = f"%%{call} so%%, then %%{call}%%"

    check(Case("both", text, [F, {"text": ", then "}, F, STOP], options={"dialect": dialect}))
