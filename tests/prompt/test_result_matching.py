"""Matching of results to calls."""

from fcshim.messages import MediaPart, ToolCall, ToolMessage
from fcshim.prompt.history import LATE_RESULT, NO_CALL, NO_RESULT, MatchedResult, ResultMatcher
from tests.prompt.conversations import text

F, G = ToolCall("1", "f", "{}"), ToolCall("2", "g", "{}")
ONE, TWO = ToolMessage("1", text("one")), ToolMessage("2", text("two"))


def test_results_are_in_the_order_of_the_calls() -> None:
    assert [MatchedResult("f", text("one")), MatchedResult("g", text("two"))] == ResultMatcher().match(
        [F, G], [TWO, ONE]
    )


def test_a_call_without_a_result_gets_a_note() -> None:
    assert [
        MatchedResult("f", text(NO_RESULT), is_error=True),
        MatchedResult("g", text("two")),
    ] == ResultMatcher().match([F, G], [TWO])


def test_a_result_without_a_call_gets_a_note() -> None:
    named = ToolMessage("9", text("x"), name="h", is_error=True)

    assert [
        MatchedResult("unknown", text("one"), note=NO_CALL),
        MatchedResult("h", text("x"), is_error=True, note=NO_CALL),
    ] == (ResultMatcher().match([], [ONE, named]))


def test_a_late_result_gets_a_note() -> None:
    answers = ResultMatcher()
    answers.match([F], [])

    assert [MatchedResult("g", text("two")), MatchedResult("f", text("one"), note=LATE_RESULT)] == answers.match(
        [G], [ONE, TWO]
    )


def test_a_reused_id_means_the_last_call() -> None:
    answers = ResultMatcher()

    assert [MatchedResult("f", text("one"))] == answers.match([F], [ONE])
    assert [MatchedResult("h", text("two"))] == answers.match(
        [ToolCall("1", "h", "{}")], [ToolMessage("1", text("two"))]
    )
    assert [MatchedResult("h", text("one"), note=LATE_RESULT)] == answers.match([], [ONE])


def test_results_of_calls_with_the_same_id_are_assigned_in_order() -> None:
    twice = [F, ToolCall("1", "g", "{}")]
    second = ToolMessage("1", text("two"))

    assert [MatchedResult("f", text("one")), MatchedResult("g", text("two"))] == ResultMatcher().match(
        twice, [ONE, second]
    )


def test_a_duplicate_result_counts_once_and_a_different_one_is_added() -> None:
    other = ToolMessage("1", text("other"))

    assert [MatchedResult("f", text("one")), MatchedResult("f", text("other"))] == ResultMatcher().match(
        [F], [ONE, other, ONE]
    )


def test_two_images_are_two_results() -> None:
    images = [ToolMessage("1", (MediaPart("image/png", data=data),)) for data in ("aGk=", "aG8=")]

    assert [MatchedResult("f", image.content) for image in images] == ResultMatcher().match([F], images)


def test_the_clients_name_of_a_result_is_used() -> None:
    assert [MatchedResult("renamed", text("x"))] == ResultMatcher().match(
        [F], [ToolMessage("1", text("x"), name="renamed")]
    )
