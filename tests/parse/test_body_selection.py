"""A body in one of two syntaxes is read by the reader of the syntax that begins it."""

import pytest

from fcshim.events import StopReason
from fcshim.parse.stream import StreamParser, parse
from tests.parse.laws import Piece, check_reply

OPEN, CLOSE = "<dots_function_call>", "</dots_function_call>"
JSON_CALL = '{"name": "f", "arguments": {"a": "b"}}'
TAGGED_CALL = '<invoke name="f"><parameter name="a">b</parameter></invoke>'
CALL = {"call": "f", "arguments": '{"a": "b"}', "coerced": [], "error": None}


def _read(text: str, stop: StopReason = "complete") -> list[Piece]:
    whole = check_reply(text, stop, parse(text, "dots", stop_reason=stop))
    parser = StreamParser("dots")
    events = [event for character in text for event in parser.feed(character)]

    assert whole == check_reply(text, stop, events + parser.close(stop))

    return whole


@pytest.mark.parametrize("body", [JSON_CALL, TAGGED_CALL, f"\n{JSON_CALL}\n", f"\n  {TAGGED_CALL}"])
def test_the_first_characters_select_the_syntax(body: str) -> None:
    assert [CALL, {"stop": "tool_use"}] == _read(f"{OPEN}{body}{CLOSE}")


def test_each_body_selects_its_own_syntax() -> None:
    text = f"{OPEN}{JSON_CALL}{CLOSE}{OPEN}{TAGGED_CALL}{CLOSE}"

    assert [CALL, CALL, {"stop": "tool_use"}] == _read(text)


@pytest.mark.parametrize("body", ["<inv", "neither"])
def test_a_body_in_no_known_syntax_is_text(body: str) -> None:
    assert [{"text": f"{OPEN}{body}"}, {"stop": "complete"}] == _read(f"{OPEN}{body}")


@pytest.mark.parametrize("space", ["", " "])
def test_a_start_marker_that_ends_the_reply_is_dropped(space: str) -> None:
    assert [{"stop": "complete"}] == _read(f"{OPEN}{space}")


@pytest.mark.parametrize("body", [JSON_CALL, TAGGED_CALL])
def test_a_truncated_body_does_not_run(body: str) -> None:
    call, stop = _read(f"{OPEN}{body[:-8]}", "max_tokens")

    assert ("truncated", {"stop": "max_tokens"}) == (call["error"]["kind"], stop)


@pytest.mark.parametrize("body", [JSON_CALL, TAGGED_CALL])
def test_a_quoted_body_is_text(body: str) -> None:
    text = f"Write `{OPEN}{body}{CLOSE}` so."

    assert [{"text": text}, {"stop": "complete"}] == _read(text)
