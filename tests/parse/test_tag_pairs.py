"""The pairs of tags in held text are those that a fresh look at the text finds, and cost their reading only once."""

from hypothesis import given
from hypothesis import strategies as st

from fcshim.parse.limits import Limits
from fcshim.parse.stream import StreamParser
from fcshim.parse.tag_pairs import TagPairs
from tests.parse.hostile import IN_DIALECTS
from tests.steps import steps

START, END = "<c>", "</c>"
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def _are_closed(text: str) -> bool:
    """Return whether no end tag in the text belongs to a start tag before it."""
    depth = 0
    for word in text.replace(START, "\0+\0").replace(END, "\0-\0").split("\0"):
        depth += {"+": 1, "-": -1}.get(word, 0)
        if depth < 0:
            return False
    return True


@given(words=st.lists(st.sampled_from([f"\n{START}", START, END, "x"]), max_size=40), cuts=st.sets(st.integers(1, 160)))
def test_pairs_are_those_of_a_fresh_look(words: list[str], cuts: set[int]) -> None:
    text = "".join(words)
    pairs = TagPairs((START, END), (END,))
    for end in sorted(cut for cut in {*cuts, len(text)} if cut <= len(text)):
        seen = text[:end]
        for at in (at for at in range(end) if seen.startswith(f"\n{START}", at)):
            offset = pairs.offset_of(seen, at)
            if offset is None:
                pairs, offset = TagPairs((START, END), (END,)), 0

            assert pairs.are_closed(seen, at, offset) == _are_closed(seen[at:])


def test_bodies_that_hold_the_same_text_read_its_tags_once() -> None:
    dialect, make = IN_DIALECTS["restarts: a call each"]
    text = make(16_000)

    def read(held: int) -> None:
        parser = StreamParser(dialect, TOOLS, limits=Limits(search=held))
        for at in range(0, len(text), 50):
            parser.feed(text[at : at + 50])

    read(1_000)  # compiles the grammars

    assert steps(lambda: read(8_000)) < 1.1 * steps(lambda: read(1_000))
