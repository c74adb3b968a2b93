"""Delta debugging."""

import random

import pytest

from fcshim.testing import shrink


@pytest.mark.parametrize(
    ("text", "needed", "expected"),
    [
        ("abcdefghij", "e", "e"),
        ("abcdefghij", "aj", "aj"),
        ("aaaa", "", ""),
        ("", "", ""),
        ("a", "a", "a"),
    ],
)
def test_what_is_not_needed_goes(text, needed, expected):
    assert expected == shrink(text, lambda shorter: all(character in shorter for character in needed))


def test_a_word_is_found_in_a_long_text():
    assert "needle" == shrink("x" * 500 + "needle" + "y" * 700, lambda shorter: "needle" in shorter)


def test_a_text_without_the_property_stays():
    assert "abc" == shrink("abc", lambda _: False)


def test_no_single_character_of_the_result_can_go():
    source = random.Random(1)
    for _ in range(50):
        text = "".join(source.choice("()ab") for _ in range(40)) + "((a))"
        keeps = lambda shorter: shorter.count("(") > 1 and shorter.count("(") == shorter.count(")")  # noqa: E731
        result = shrink(text, keeps)

        assert result == text or keeps(result)
        assert not any(keeps(result[:at] + result[at + 1 :]) for at in range(len(result))) or not keeps(text)


def test_the_number_of_tries_is_limited():
    tries = []

    def keeps(shorter):
        tries.append(shorter)
        return "z" in shorter

    found = shrink("a" * 1_000 + "z", keeps, max_tries=5)

    assert "z" in found
    assert len(tries) <= 6


def test_tries_grow_slower_than_the_square_of_the_text():
    def tries_for(size):
        count = 0

        def keeps(shorter):
            nonlocal count
            count += 1
            return "z" in shorter

        assert "z" == shrink("a" * size + "z" + "b" * size, keeps)
        return count

    assert tries_for(4_000) < 3 * tries_for(2_000)
