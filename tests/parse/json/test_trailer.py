"""Text after a complete JSON call, in its body and after it."""

import pytest

from tests.parse.cases import Case, check
from tests.parse.laws import Piece

F: Piece = {"call": "f", "arguments": "{}"}
G: Piece = {"call": "g", "arguments": "{}"}
CALL, OTHER = '{"name": "f"}', '{"name": "g"}'
STOP: Piece = {"stop": "tool_use"}


@pytest.mark.parametrize(
    "behind",
    ["", " \n", ".", "\n```\n", "}", "  Done.  ", " # so", "x" * 199],
)
def test_short_trailing_text_before_the_end_marker_is_dropped(behind: str) -> None:
    check(Case("remark", f"<tool_call>{CALL}{behind}</tool_call>", [F, STOP], options={"dialect": "hermes"}))


def test_long_trailing_text_is_text() -> None:
    remark = "word " * 60
    text = f"<tool_call>{CALL}{remark}</tool_call>"

    check(Case("long", text, [F, {"text": f"{remark}</tool_call>"}, STOP], options={"dialect": "hermes"}))


def test_endless_white_space_ends_the_body() -> None:
    text = f"<tool_call>{CALL}{' ' * 20_000}x"

    check(Case("space", text, [F, {"text": " " * 20_000 + "x"}, STOP], options={"dialect": "hermes"}))


def test_a_further_call_may_follow_in_the_same_tag() -> None:
    check(Case("two", f"<tool_call>{CALL}\n{OTHER}</tool_call>", [F, G, STOP], options={"dialect": "hermes"}))


def test_semicolons_join_calls_if_the_dialect_allows_them() -> None:
    joined = f"{CALL} ; {OTHER}"

    check(Case("joined", joined, [F, G, STOP], options={"dialect": "llama3_json"}))
    check(
        Case(
            "apart", joined, [F, {"text": f" ; {OTHER}"}, STOP], options={"dialect": "xlam"} | {"dialect": "bare_json"}
        )
    )


def test_a_semicolon_without_a_further_call_is_text() -> None:
    check(Case("alone", f"{CALL};", [F, {"text": ";"}, STOP], options={"dialect": "llama3_json"}))


@pytest.mark.parametrize(("stop_reason", "error"), [("complete", None), ("max_tokens", "truncated")])
def test_without_an_end_marker_a_call_counts_only_if_the_reply_ended_by_itself(
    stop_reason: str, error: str | None
) -> None:
    stop = {"stop": "tool_use" if error is None else stop_reason}
    options = {"dialect": "hermes"}

    check(Case("end", f"<tool_call>{CALL}", [F | {"error": error}, stop], options=options, stop_reason=stop_reason))  # type: ignore[arg-type] # a literal
