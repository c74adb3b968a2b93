"""Contents of messages, put together."""

from fcshim.messages import TextPart
from fcshim.prompt.contents import cleaned, described, joined
from fcshim.prompt.neutralise import Neutraliser
from tests.prompt.conversations import IMAGE, text


def test_the_separator_stands_between_what_is_not_empty() -> None:
    assert text("a, b") == joined([(), text("a"), text(""), text("b"), ()], ", ")


def test_texts_never_touch() -> None:
    assert (TextPart("ab"), IMAGE, TextPart(", c")) == joined([(TextPart("a"), TextPart("b"), IMAGE), text("c")], ", ")


def test_a_marker_spread_over_two_texts_is_neutralised() -> None:
    assert text("<_function_call>") == cleaned((TextPart("<function_"), TextPart("call>")), Neutraliser())


def test_media_are_described_where_they_cannot_be_shown() -> None:
    assert text("see [image: image/png]") == cleaned((TextPart("see "), IMAGE), Neutraliser(), media=False)
    assert TextPart("a") == described(TextPart("a"))
