"""The indexes of a reply's calls, and repeated calls."""

import pytest

from fcshim.events import Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.pipeline.attempt_filter import ReplyCalls


def test_calls_are_counted_without_a_gap():
    calls = ReplyCalls()
    held = [ToolCallStart("x", "f", 0), ToolCallEnd("x", "f", "", 0)]

    assert [0, 0, 0] == [each.index for each in calls.renumber([ToolCallStart("y", "f", 1), *chunk_and_end("y", 1)])]
    assert not calls.indexes_unchanged
    assert [1, 1] == [each.index for each in calls.renumber(held)]
    assert [Text("a")] == calls.renumber([Text("a")])


def chunk_and_end(call, index):
    return [ToolCallChunk(call, "{}", index), ToolCallEnd(call, "f", "{}", index)]


@pytest.mark.parametrize(
    ("name", "arguments", "repeated"),
    [
        ("f", '{"b": [1],"a":2}', True),
        ("f", '{"a": 2, "b": [2]}', False),
        ("g", '{"a": 2, "b": [1]}', False),
        ("f", '{"a": 2', False),
    ],
)
def test_a_call_is_repeated_if_name_and_values_are_equal(name, arguments, repeated):
    calls = ReplyCalls()
    calls.accept(ToolCallEnd("1", "f", '{"a": 2, "b": [1]}', 0))
    calls.accept(ToolCallEnd("2", "f", '{"a": 2', 1))

    assert repeated == calls.repeats(ToolCallEnd("3", name, arguments, 0), 1)
