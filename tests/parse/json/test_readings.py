"""The search for readings and the incremental reader agree on every body."""

import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fcshim.events import ToolCallEnd
from fcshim.parse.readings.json import read_json
from fcshim.parse.stream import StreamParser
from fcshim.testing.splits import random_split
from tests.fuzz.documents import body, spell

NUMBERS = st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(), VALUES, max_size=4)


def read(written: str, source: random.Random) -> ToolCallEnd:
    """Return the one call that the reader finds in a body under a random split."""
    parser = StreamParser()
    events = [event for piece in random_split(written, source) for event in parser.feed(piece)] + parser.close()
    (call,) = [event for event in events if isinstance(event, ToolCallEnd)]
    return call


@given(ARGUMENTS, st.integers(0, 10**6))
def test_the_search_and_the_reader_agree(arguments: dict[str, Any], seed: int) -> None:
    source = random.Random(seed)
    written = body("f", spell(arguments, source), source)
    mended = read_json(None, "start", written)
    call = read(f"<function_call>{written}</function_call>", source)

    assert mended.complete
    assert call.error is None
    assert arguments == json.loads(mended.text)["arguments"] == json.loads(call.tool_call_arguments_complete)


@given(ARGUMENTS, st.integers(0, 10**6))
def test_the_search_and_the_reader_agree_on_lenient_json(arguments: dict[str, Any], seed: int) -> None:
    """A trailing comma sends the remainder of the body through the search, whatever the last commit point is."""
    source = random.Random(seed)
    written = body("f", spell(arguments, source), source).rstrip()[:-1] + ",}"
    mended = read_json(None, "start", written)
    call = read(f"<function_call>{written}</function_call>", source)

    assert call.error is None
    assert json.loads(mended.text)["arguments"] == json.loads(call.tool_call_arguments_complete)
