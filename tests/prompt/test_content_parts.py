"""Joining, escaping and shortening of content parts."""

import pytest

from fcshim.messages import TextPart
from fcshim.prompt.content_parts import as_text_part, escape_content, join_contents, shorten, shorten_content
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


@pytest.mark.parametrize("limit", [0, 10, 11])
def test_a_short_text_is_unchanged(limit: int) -> None:
    assert "0123456789" == shorten("0123456789", limit)


def test_the_start_and_the_end_are_kept_with_a_note_of_the_omitted_length() -> None:
    long = "b" * 2_000 + "m" * 3_000 + "e" * 1_000

    assert "b" * 2_000 + "\n[... 3,000 characters left out ...]\n" + "e" * 1_000 == shorten(long, 3_000)


def test_a_very_small_limit_keeps_the_start() -> None:
    assert "a\n[... 9 characters left out ...]\n" == shorten("a123456789", 1)


def test_the_text_of_a_result_is_shortened_as_a_whole_and_media_are_kept() -> None:
    content = (TextPart("aaa"), IMAGE, TextPart("bbb"))

    assert (TextPart("aa\n[... 3 characters left out ...]\nb"), IMAGE) == shorten_content(content, 3)
    assert content == shorten_content(content, 6)
    assert text("x" * 9) == shorten_content(text("x" * 9), 0)
