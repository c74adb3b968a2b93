"""The status of a body, and the state of its current call."""

import pytest

from fcshim.parse.body import BodyProgress, BodyStatus, TrailingStatus, TrailingText
from fcshim.parse.dialect import Body, CallMarkers, Dialect
from fcshim.parse.json.body import JsonShape
from fcshim.parse.literals.python_body import PythonCalls
from fcshim.parse.markers import MarkerSet, compile_end_markers
from fcshim.parse.sink import CallSink
from tests.parse.cases import Case, check
from tests.parse.laws import Piece


def new_progress() -> BodyProgress:
    return BodyProgress(CallSink(None, "stream", str, 100))


def test_the_start_of_a_call_is_reported() -> None:
    progress = new_progress()
    progress.begin_call()
    progress.report_start()

    assert progress.started
    assert BodyStatus.STARTED is progress.status


def test_a_discarded_call_is_reported_as_text() -> None:
    progress = new_progress()
    progress.discard()

    assert progress.discarding
    assert BodyStatus.NOT_A_CALL is progress.status


def test_the_end_of_a_call_that_was_just_reported_as_text_is_pending() -> None:
    progress = new_progress()
    progress.discard()
    progress.end_call()

    assert BodyStatus.NOT_A_CALL is progress.status
    assert progress.end_pending

    progress.report_pending_end()

    assert BodyStatus.CALL_ENDED is progress.status
    assert not progress.end_pending


def test_a_call_of_a_refused_body_is_discarded_from_its_start() -> None:
    progress = new_progress()
    progress.discard()
    progress.begin_call()

    assert not progress.discarding

    progress.discarding = "body"
    progress.begin_call()

    assert progress.discarding


def test_the_end_of_a_body_accepts_its_last_call() -> None:
    sink = CallSink(None, "stream", str, 100)
    progress = BodyProgress(sink)
    sink.start("f")
    sink.add_chunk("{}")
    sink.mark_complete()
    progress.end_body()

    assert BodyStatus.ENDED is progress.status
    assert 1 == sink.accepted_count


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
    dialect = Dialect(
        name="own",
        summary="",
        call=CallMarkers("%%", "%%"),
        body=body,
    )
    text = f"%%{call} so%%, then %%{call}%%"

    check(Case("both", text, [F, {"text": ", then "}, F, STOP], options={"dialect": dialect}))
