"""The error of a call that must not run."""

from fcshim import StreamParser
from fcshim.events import ToolCallEnd

TWICE = '<function_call>{"name": "f", "arguments": {"a": 1, "b": "some text", "a": 2}}</function_call>'


def errors_of(*pieces: str) -> list[tuple[str, str]]:
    parser = StreamParser()
    events = [*(event for piece in pieces for event in parser.feed(piece)), *parser.close()]
    return [
        (event.error.message, event.error.raw) for event in events if isinstance(event, ToolCallEnd) and event.error
    ]


def test_the_error_for_a_duplicate_key_quotes_the_arguments_before_it() -> None:
    expected = [("the key 'a' comes twice", '{"a": 1, "b": "some text')]

    assert expected == errors_of(TWICE)
    assert expected == errors_of(*TWICE)
