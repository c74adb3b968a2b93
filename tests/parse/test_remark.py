"""What stands behind a complete body; `vectors/remarks.json` has the dialects of the table."""

import pytest

from fcshim.parse.closers import closers
from fcshim.parse.dialect import Body, Dialect
from fcshim.parse.json.body import JsonShape
from fcshim.parse.literals.python_body import PythonCalls
from fcshim.parse.markers import MarkerSet
from fcshim.parse.remark import Behind, Remark
from tests.parse.cases import Case, check
from tests.parse.laws import Piece

F: Piece = {"call": "f", "arguments": "{}"}
STOP: Piece = {"stop": "tool_use"}


def remark() -> Remark:
    return Remark(closers(("</c>", "%%")), MarkerSet(("<c>", "</c>", "%%")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" so", (Behind.OPEN, 3)),
        (" so <", (Behind.OPEN, 4)),
        (" so </c> x", (Behind.CLOSED, 8)),
        (" so <c> x", (Behind.TEXT, 4)),
        ("%%", (Behind.CLOSED, 2)),
        ("x" * 200 + "</c>", (Behind.CLOSED, 204)),
        ("x" * 201 + "</c>", (Behind.TEXT, 205)),
        ("x" * 999, (Behind.TEXT, 999)),
    ],
)
def test_a_marker_says_what_a_remark_is(text: str, expected: tuple[Behind, int]) -> None:
    assert expected == remark().read(text, 0)


def test_white_space_counts_as_well() -> None:
    behind = remark()
    behind.add(" " * 201)

    assert (Behind.TEXT, 1) == behind.read("x</c>", 0)
    assert " " * 201 + "x" == behind.text()


@pytest.mark.parametrize(("body", "call"), [(JsonShape(), '{"name": "f"}'), (PythonCalls(), "f()")])
def test_a_marker_that_opens_and_closes_closes(body: Body, call: str) -> None:
    dialect = Dialect(name="own", summary="", open="%%", close="%%", body=body)
    text = f"%%{call} so%%, then %%{call}%%"

    check(Case("both", text, [F, {"text": ", then "}, F, STOP], options={"dialect": dialect}))
