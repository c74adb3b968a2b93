"""The diff in the question about an edit: complete, and like that of other tools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.chat import question
from fcshim.chat.question import unified_diff

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "  ", "x\ry", "u\u2028v"]), max_size=12).map("\n".join)


def written(before, after):
    return [line.sign + line.text for line in unified_diff(before, after)]


def test_a_change_has_three_lines_around_it():
    before = "\n".join(map(str, range(20))) + "\n"

    expected = ["@@ -8,7 +8,7 @@", " 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13"]
    assert expected == written(before, before.replace("10", "ten"))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a\n", "a\n", []),
        ("", "", []),
        ("", "a\n", ["@@ -0,0 +1,1 @@", "+a"]),
        ("a\n", "", ["@@ -1,1 +0,0 @@", "-a"]),
        ("a\n", "a", ["@@ -1,1 +1,1 @@", "-a", "+a", "\\ no line feed at the end"]),
        ("a\r\n", "a\n", ["@@ -1,1 +1,1 @@", "-a\r", "+a"]),
        ("a\u2028b\n", "a\u2028c\n", ["@@ -1,1 +1,1 @@", "-a\u2028b", "+a\u2028c"]),
        ("x\nx\nx\n", "x\nx\n", ["@@ -1,3 +1,2 @@", " x", " x", "-x"]),
    ],
)
def test_ends_of_lines_and_texts(before, after, expected):
    assert expected == written(before, after)


def patched(before, after):
    """Return the old text with the diff applied, each of whose old lines must be where the diff says."""
    old, result, at, last = question._split(before), [], 0, ""
    for line in unified_diff(before, after):
        match line.sign:
            case "@":
                start, length = map(int, line.text.split()[1][1:].split(","))
                result += old[at : start - (length > 0)]
                at = start - (length > 0)
            case "\\":
                result[-1:] = result[-1:] if last == "-" else [result[-1].removesuffix("\n")]
            case sign:
                assert sign == "+" or old[at].removesuffix("\n") == line.text
                result += [] if sign == "-" else [line.text + "\n"]
                at += sign != "+"
        last = line.sign
    return "".join(result + old[at:])


@pytest.mark.parametrize("compared", [question._DIFF_COMPARED, -1])
@given(TEXTS, TEXTS)
def test_a_diff_makes_the_new_text_of_the_old_one(compared, before, after):
    whole, question._DIFF_COMPARED = question._DIFF_COMPARED, compared
    try:
        assert after == patched(before, after)
    finally:
        question._DIFF_COMPARED = whole


def test_a_large_file_with_one_change_is_compared_at_once():
    before = "\n".join(map(str, range(200_000)))

    assert 9 == len(written(before, before.replace("\n100000\n", "\nchanged\n")))
