"""Stop sequences in streaming text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.pipeline.stop_sequences import StopSearch
from tests.steps import steps


def search(stops: list[str], pieces: list[str]) -> tuple[str, bool]:
    found = StopSearch(stops)
    given_out = "".join([found.feed(piece) for piece in pieces])
    return (given_out if found.found else given_out + found.flush()), found.found


def before_first(stops: list[str], text: str) -> tuple[str, bool]:
    """The reference implementation, in quadratic time."""
    for end in range(1, len(text) + 1):
        hits = [len(stop) for stop in stops if stop and text[:end].endswith(stop)]
        if hits:
            return text[: end - max(hits)], True
    return text, False


@pytest.mark.parametrize(
    ("stops", "text", "before", "found"),
    [
        (["END"], "one END two", "one ", True),
        (["END"], "one EN two", "one EN two", False),
        (["aab"], "aaab", "a", True),
        (["abab", "c"], "xabac", "xaba", True),
        (["abcd", "bc"], "abcd", "a", True),
        (["b", "ab"], "ab", "", True),
        ([""], "text", "text", False),
        ([], "text", "text", False),
    ],
)
def test_the_text_before_the_first_stop_sequence_is_returned(
    stops: list[str], text: str, before: str, found: bool
) -> None:
    assert (before, found) == search(stops, [text])
    assert (before, found) == search(stops, list(text))


@given(st.lists(st.text("ab", max_size=4), max_size=3), st.lists(st.text("abc", max_size=5), max_size=8))
def test_any_split_gives_the_same_text(stops: list[str], pieces: list[str]) -> None:
    assert before_first(stops, "".join(pieces)) == search(stops, pieces)


def test_only_a_prefix_of_a_stop_sequence_is_held_back() -> None:
    stops = StopSearch(["\nUser:"])

    assert ["hello", " ", "\nUs", "\nUsual"] == [stops.feed(piece) for piece in ("hello", " \nU", "s\nU", "sual")]


def test_nothing_is_found_across_a_flush() -> None:
    stops = StopSearch(["ab"])

    assert ["", "a", "b"] == [stops.feed("a"), stops.flush(), stops.feed("b")]
    assert not stops.found


def test_no_text_follows_a_match() -> None:
    stops = StopSearch(["x"])

    assert ["a", ""] == [stops.feed("axb"), stops.feed("more")]


def test_a_hostile_stop_sequence_takes_linear_time() -> None:
    stops = StopSearch(["a" * 100_000 + "b"])

    def feed(times: int) -> None:
        for _ in range(times):
            stops.feed("aaaa")

    first = steps(lambda: feed(2_000))
    feed(40_000)
    later = steps(lambda: feed(2_000))

    assert not stops.found
    assert later < 2 * first
