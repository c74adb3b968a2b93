"""Limits on messages in a time, and on values in one message."""

import json

from hypothesis import given
from hypothesis import strategies as st

from fcshim.mcp.flood_limits import MAX_VALUES, RateLimit, ValueCounter

JSON_VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a"\\\\,:[{\u00e9\n'),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='a"\\\\,[', max_size=3), inner, max_size=4)
    ),
)


def marks(value):
    """Count by the value itself: two quotes for a string, one mark for each container, comma and colon."""
    match value:
        case str():
            return 2
        case list():
            return 1 + max(len(value) - 1, 0) + sum(map(marks, value))
        case dict():
            return 1 + max(len(value) - 1, 0) + 3 * len(value) + sum(map(marks, value.values()))
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

    assert 6 == count(text, 65_536)


def test_counting_stops_at_the_limit():
    assert MAX_VALUES < count(b'"' * 16 * 2**20, 65_536) < MAX_VALUES + 100_000


def test_a_burst_is_admitted_then_so_many_a_second():
    limit = RateLimit(3, 2)
    admitted = [limit.admits(100.0) for _ in range(4)]

    assert [True, True, True, False] == admitted
    assert [True, False] == [limit.admits(100.5) for _ in range(2)]


def test_what_is_delayed_waits_for_its_tokens():
    limit = RateLimit(10, 2)

    assert [0.0, 1.0, 2.0] == [limit.delay(10, 100.0), limit.delay(2, 100.0), limit.delay(2, 100.0)]
