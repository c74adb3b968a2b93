"""The reader of tagged parameters: unexpected text, long values, and linear work."""

from typing import Any

import pytest

from fcshim.parse.limits import Limits
from fcshim.parse.stream import StreamParser, parse
from tests.parse.laws import Piece, check_reply, executable
from tests.parse.line_count import count_lines

TOOLS = [
    {"name": "f", "parameters": {"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}}
]
OPEN = "<tool_call>\n<function=f>\n"
CLOSE = "</function>\n</tool_call>"
VALUE = "<parameter=s>\nx\n</parameter>\n"


def _read(text: str, **options: Any) -> list[Piece]:
    """Read the text whole and in pieces of four characters, which must give the same events."""
    options = {"dialect": "qwen3_xml", "tools": TOOLS, **options}
    whole = check_reply(text, "complete", parse(text, **options))
    parser = StreamParser(**options)
    events = [event for at in range(0, len(text), 4) for event in parser.feed(text[at : at + 4])]

    assert whole == check_reply(text, "complete", events + parser.close())

    return whole


def _only(text: str, **options: Any) -> Piece:
    (call,) = (piece for piece in _read(text, **options) if "call" in piece)
    return call


def test_short_text_before_a_parameter_may_be_an_argument_and_fails_the_call() -> None:
    assert "malformed" == _only(f"{OPEN}{'word ' * 30}{VALUE}{CLOSE}")["error"]["kind"]


def test_longer_text_before_a_parameter_shows_that_there_is_no_call() -> None:
    text = f"{OPEN}{'word ' * 60}{VALUE}{CLOSE}"

    assert [{"text": text}, {"stop": "complete"}] == _read(text)


def test_short_text_before_the_end_marker_is_skipped() -> None:
    assert 2 == len(_read(f"{OPEN}{VALUE}</function>\nThat was it.\n</tool_call>"))


def test_long_text_instead_of_the_end_marker_stays_text() -> None:
    rest = "That is what I did. " * 20
    call, text, _ = _read(f"{OPEN}{VALUE}</function>\n{rest}")

    assert (None, f"{rest}") == (call["error"], text["text"])


def test_arguments_have_a_limit() -> None:
    call = _only(f"{OPEN}<parameter=s>\n{'x' * 500}\n</parameter>\n{CLOSE}", limits=Limits(arguments=100))

    assert "limit" == call["error"]["kind"]


def test_the_call_after_one_with_an_error_runs() -> None:
    text = f"{OPEN}{VALUE}{VALUE}</function>\n<function=f>\n{VALUE}{CLOSE}"

    assert ["malformed", None] == [call["error"] and call["error"]["kind"] for call in _read(text)[:2]]


def test_a_long_string_value_is_sent_as_it_arrives() -> None:
    parser = StreamParser("qwen3_xml", TOOLS)
    parser.feed(f"{OPEN}<parameter=s>\n")

    assert all(len(parser.feed("abcd")) == 1 for _ in range(100))


HOSTILE = [
    "</parameter>",
    "\n</parameter>\n",
    "<function=",
    "</tool_call>",
    "<parameter=a",
    "\n<parameter=n>",
    "\n",
    "<",
]
HOSTILE += [
    "<parameter=n>",
    "<n>",
    "<n>1</n>",
    "<!-- ",
    "<!-- -->",
    "<arguments>",
    "<arguments",
    "<a ",
    "</n>",
    "x<parameter=n>1",
]
HOSTILE += ["</parameter></parameter>", "<parameter>n</parameter>", "<parameter=n/>", "<s>", "\n<parameter=n>\n1"]
HOSTILE += [" ", "</function>\n", "<function=f>\n<parameter=s>", "<tool_call>", "\\", '"', "\t</parameter>\t"]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize(
    "before", [f"{OPEN}<parameter=s>\n", f"{OPEN}<parameter=n>\n", f"{OPEN}<s>\n", OPEN, "<tool_call>\n", ""]
)
def test_work_is_linear(before: str, piece: str) -> None:
    texts = [before + piece * (size // len(piece)) for size in (1_000, 4_000)]
    small, large = (count_lines(text, "qwen3_xml", TOOLS) for text in texts)

    assert large < 5.3 * small


def test_nothing_of_a_quoted_call_runs() -> None:
    quoted = f"{OPEN}{VALUE}{CLOSE}"

    assert [] == executable(_read(f"```\n{quoted}\n```\nis how"))
