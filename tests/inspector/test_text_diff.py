"""The comparison of two replies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.server.inspector.views import text_diff

WORDS = st.text(alphabet='ab {}":,\n<>_é', max_size=60)


@given(WORDS, WORDS)
def test_the_parts_are_the_two_texts(before, after):
    changes = text_diff(before, after)

    assert before == "".join(text for kind, text in changes if kind != "added")
    assert after == "".join(text for kind, text in changes if kind != "removed")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("same", "same", [("same", "same")]),
        ("", "new", [("added", "new")]),
        ('{"a": "one"}', '{"a": 1}', [("same", '{"a": '), ("removed", '"one"'), ("added", "1"), ("same", "}")]),
        ("call subtract now", "call subway now", [
            ("same", "call "), ("removed", "subtract"), ("added", "subway"), ("same", " now")]),
    ],
)  # fmt: skip
def test_words_are_compared_whole(before, after, expected):
    assert expected == text_diff(before, after)


def test_long_texts_are_compared_by_lines_and_longer_ones_as_a_whole():
    lines = [f"line {at} has some words\n" for at in range(300)]
    changed = [*lines[:1], "another\n", *lines[2:250], "other\n", *lines[251:]]
    by_lines = text_diff("".join(lines), "".join(changed))
    whole = text_diff("a" + "x y " * 50_000 + "b", "c" + "z y " * 50_000 + "d")

    assert ["line 1 has some words", "line 250 has some words"] == [
        text.strip() for kind, text in by_lines if kind == "removed"
    ]
    assert ["removed", "added"] == [kind for kind, _ in whole]
