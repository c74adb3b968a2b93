"""Long results, shortened."""

import pytest

from fcshim.messages import TextPart
from fcshim.prompt.shortening import shorten, shorten_content
from tests.prompt.conversations import IMAGE, text


@pytest.mark.parametrize("limit", [0, 10, 11])
def test_what_is_short_enough_stays(limit: int) -> None:
    assert "0123456789" == shorten("0123456789", limit)


def test_the_beginning_and_the_end_stay_and_the_note_says_how_much_is_missing() -> None:
    long = "b" * 2_000 + "m" * 3_000 + "e" * 1_000

    assert "b" * 2_000 + "\n[... 3,000 characters left out ...]\n" + "e" * 1_000 == shorten(long, 3_000)


def test_so_short_a_limit_leaves_a_beginning() -> None:
    assert "a\n[... 9 characters left out ...]\n" == shorten("a123456789", 1)


def test_the_text_of_a_result_is_shortened_as_a_whole_and_its_media_stay() -> None:
    content = (TextPart("aaa"), IMAGE, TextPart("bbb"))

    assert (TextPart("aa\n[... 3 characters left out ...]\nb"), IMAGE) == shorten_content(content, 3)
    assert content == shorten_content(content, 6)
    assert text("x" * 9) == shorten_content(text("x" * 9), 0)
