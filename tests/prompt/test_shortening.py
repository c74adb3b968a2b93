"""Shortening of long results."""

import pytest

from fcshim.messages import TextPart
from fcshim.prompt.shortening import shorten, shorten_content
from tests.prompt.conversations import IMAGE, text


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
