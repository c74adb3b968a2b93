"""Counting the values of a JSON text without parsing it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.value_counter import MAX_MARKS, ValueCounter, has_too_many_values

JSON_VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a"\\\\,:[{\u00e9\n'),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='a"\\\\,[', max_size=3), inner, max_size=4)
    ),
)


def marks(value):
    """Count by the value itself: two quotes for a string, four marks for a container, one for each comma and colon."""
    match value:
        case str():
            return 2
        case list():
            return 4 + max(len(value) - 1, 0) + sum(map(marks, value))
        case dict():
            return 4 + max(len(value) - 1, 0) + 3 * len(value) + sum(map(marks, value.values()))
    return 0


def count(data, size):
    counter = ValueCounter()
    for start in range(0, len(data), size):
        counter.feed(data[start : start + size])
    return counter.count


@given(JSON_VALUES, st.integers(1, 9))
def test_marks_in_strings_do_not_count(value, size):
    assert marks(value) == count(json.dumps(value).encode(), size)


def test_a_large_text_is_one_value():
    text = json.dumps({"text": 'say "[1, 2]",\n' * 100_000}).encode()

    assert 9 == count(text, 65_536)


def test_counting_stops_at_the_limit():
    assert MAX_MARKS < count(b'"' * 16 * 2**20, 65_536) < MAX_MARKS + 100_000


@given(st.integers(0, 3), st.sampled_from([b"[],", b"0,", b'"",', b'{"a":0},']))
def test_a_document_has_too_many_values_if_its_count_exceeds_the_limit(more, value):
    marks_of_value = {b"[],": 5, b"0,": 1, b'"",': 3, b'{"a":0},': 8}[value]
    document = b"[" + value * ((MAX_MARKS - 4) // marks_of_value + more - 1) + b"0]"

    assert (count(document, len(document)) > MAX_MARKS) == has_too_many_values(document)
