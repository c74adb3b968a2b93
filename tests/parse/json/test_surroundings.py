"""The prefix of a JSON body."""

import pytest

from fcshim.parse.json.surroundings import fence_end, json_begins
from tests.parse.cases import Case, check
from tests.parse.laws import Piece

KEYS = frozenset({"name", "arguments"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", True),
        (" \n[", True),
        ("```json\n{", True),
        ("```{", True),
        ("", None),
        (" \n", None),
        ("``", None),
        ("```json\n", None),
        ('\nHere it is:\n{"', False),
        ("\nHere it is:\nno", False),
        ("\n" + "word " * 30, False),
        ("<parameter", False),
        ("```python\nx", False),
    ],
)
def test_json_begins_bare_or_in_a_fence(text: str, expected: bool | None) -> None:
    assert expected is json_begins(text, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"name":', True),
        ("{'name' :", True),
        ("{name:", True),
        ('[\n {"arguments":', True),
        ('{"name"', None),
        ("[", None),
        ("{", None),
        ('{"city":', False),
        ("{\"name':", False),
        ("[1", False),
        ("{}", False),
        ("[]", False),
        ("[[", False),
    ],
)
def test_with_keys_only_an_object_that_begins_with_one_of_them_counts(text: str, expected: bool | None) -> None:
    assert expected is json_begins(text, 0, KEYS)


def test_an_answer_does_not_change_with_more_text() -> None:
    whole = '\n```json\n [ {"name": "f"}]\n'
    for keys in (frozenset(), KEYS):
        known = [json_begins(whole[:end], 0, keys) for end in range(len(whole) + 1)]

        assert [None] * known.count(None) + [True] * known.count(True) == known


def test_the_ends_of_prefixes() -> None:
    assert (8, 0, None) == (fence_end("```json\n{", 0), fence_end("```json\nx", 0), fence_end("```js", 0))


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
