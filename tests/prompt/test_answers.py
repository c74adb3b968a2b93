"""Results and calls, brought together."""

from fcshim.messages import MediaPart, ToolCall, ToolMessage
from fcshim.prompt.answers import LATE, NO_CALL, NO_RESULT, Answer, Answers
from tests.prompt.conversations import text

F, G = ToolCall("1", "f", "{}"), ToolCall("2", "g", "{}")
ONE, TWO = ToolMessage("1", text("one")), ToolMessage("2", text("two"))


def test_results_come_in_the_order_of_the_calls() -> None:
    assert [Answer("f", text("one")), Answer("g", text("two"))] == Answers().of([F, G], [TWO, ONE])


def test_a_call_without_a_result_is_answered_by_saying_so() -> None:
    assert [Answer("f", text(NO_RESULT), is_error=True), Answer("g", text("two"))] == Answers().of([F, G], [TWO])


def test_a_result_without_a_call_says_so() -> None:
    named = ToolMessage("9", text("x"), name="h", is_error=True)

    assert [Answer("unknown", text("one"), remark=NO_CALL), Answer("h", text("x"), is_error=True, remark=NO_CALL)] == (
        Answers().of([], [ONE, named])
    )


def test_a_result_that_comes_later_says_that_it_is_late() -> None:
    answers = Answers()
    answers.of([F], [])

    assert [Answer("g", text("two")), Answer("f", text("one"), remark=LATE)] == answers.of([G], [ONE, TWO])


def test_an_id_that_is_used_again_means_the_last_call() -> None:
    answers = Answers()

    assert [Answer("f", text("one"))] == answers.of([F], [ONE])
    assert [Answer("h", text("two"))] == answers.of([ToolCall("1", "h", "{}")], [ToolMessage("1", text("two"))])
    assert [Answer("h", text("one"), remark=LATE)] == answers.of([], [ONE])


def test_calls_of_one_step_with_one_id_are_answered_one_after_the_other() -> None:
    twice = [F, ToolCall("1", "g", "{}")]
    second = ToolMessage("1", text("two"))

    assert [Answer("f", text("one")), Answer("g", text("two"))] == Answers().of(twice, [ONE, second])


def test_a_result_that_is_sent_twice_counts_once_and_another_one_for_the_same_call_counts() -> None:
    other = ToolMessage("1", text("other"))

    assert [Answer("f", text("one")), Answer("f", text("other"))] == Answers().of([F], [ONE, other, ONE])


def test_two_images_are_two_results() -> None:
    images = [ToolMessage("1", (MediaPart("image/png", data=data),)) for data in ("aGk=", "aG8=")]

    assert [Answer("f", image.content) for image in images] == Answers().of([F], images)


def test_the_name_that_a_client_gives_a_result_counts() -> None:
    assert [Answer("renamed", text("x"))] == Answers().of([F], [ToolMessage("1", text("x"), name="renamed")])
