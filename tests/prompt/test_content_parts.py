"""Joining and escaping of content parts."""

from fcshim.messages import TextPart
from fcshim.prompt.content_parts import as_text_part, escape_content, join_contents
from fcshim.prompt.escape import BUNDLED, Escaper
from tests.prompt.conversations import IMAGE, text


def test_the_separator_joins_nonempty_contents() -> None:
    assert text("a, b") == join_contents([(), text("a"), text(""), text("b"), ()], ", ")


def test_adjacent_texts_are_joined() -> None:
    assert (TextPart("ab"), IMAGE, TextPart(", c")) == join_contents(
        [(TextPart("a"), TextPart("b"), IMAGE), text("c")], ", "
    )


def test_a_marker_split_over_two_texts_is_escaped() -> None:
    assert text("<_function_call>") == escape_content((TextPart("<function_"), TextPart("call>")), Escaper(BUNDLED))


def test_media_become_placeholders_where_they_cannot_be_sent() -> None:
    assert text("see [image: image/png]") == escape_content((TextPart("see "), IMAGE), Escaper(BUNDLED), media=False)
    assert TextPart("a") == as_text_part(TextPart("a"))
