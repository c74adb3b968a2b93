"""What a client sees of a reply with several rounds."""

import pytest

from fcshim.errors import UpstreamError
from fcshim.events import CallError, Error, Reasoning, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import AssistantMessage, TextPart, ToolCall
from fcshim.server.merged_reply import MergedReply

USAGE = Usage(input_tokens=10, output_tokens=5)


def call(name, call_id, index=0, error=None):
    return [
        ToolCallStart(call_id, name, index),
        ToolCallChunk(call_id, "{}", index),
        ToolCallEnd(call_id, name, "{}", index, error=error),
    ]


def feed(turn, *events):
    return [event for _, event in turn.feed([(0, event) for event in events])]


def new(**limits):
    return MergedReply(["ours"], **{"max_reply": 100_000, **limits})


def test_server_calls_are_hidden_and_their_stop_is_held_back():
    turn = new()
    seen = feed(turn, Text("a"), *call("ours", "1"), USAGE, Stop("tool_use"))

    assert [Text("a")] == seen
    assert not turn.finished


def test_client_calls_are_renumbered_without_gaps():
    turn = new()
    seen = feed(turn, *call("ours", "1"), *call("theirs", "2", 1), *call("theirs", "3", 2), USAGE, Stop("tool_use"))

    assert [*call("theirs", "2", 0), *call("theirs", "3", 1)] == seen
    assert [(0, USAGE), (0, Stop("tool_use"))] == turn.close()
    assert turn.finished


def test_a_round_without_server_calls_ends_the_reply_with_the_total_usage():
    turn = new()
    feed(turn, *call("ours", "1"), USAGE, Stop("tool_use"))
    turn.start_round()
    seen = feed(turn, Text("b"), USAGE, Stop("complete"))

    assert [Text("b"), Usage(input_tokens=20, output_tokens=10), Stop("complete")] == seen
    assert turn.finished


@pytest.mark.parametrize(
    ("first", "second", "seen"), [("a", "b", "a\n\nb"), ("a ", "b", "a b"), ("a", "\nb", "a\nb"), ("", "b", "b")]
)
def test_the_texts_of_two_rounds_are_separated(first, second, seen):
    turn = new()
    feed(turn, *([Text(first)] if first else []), *call("ours", "1"), Stop("tool_use"))
    turn.start_round()
    feed(turn, Text(second), Text("c"), Stop("complete"))

    assert AssistantMessage((TextPart(seen + "c"),)) == turn.visible_message


def test_the_visible_message_holds_only_valid_client_calls():
    turn = new()
    broken = CallError("malformed", "", "")
    feed(turn, *call("ours", "1"), *call("theirs", "2"), *call("theirs", "3", error=broken), Stop("tool_use"))

    assert AssistantMessage((), (ToolCall("2", "theirs", "{}"),)) == turn.visible_message


def test_a_reused_call_id_may_belong_to_the_client_in_the_next_round():
    turn = new()
    feed(turn, *call("ours", "call_0"), Stop("tool_use"))
    turn.start_round()

    assert call("theirs", "call_0") == feed(turn, *call("theirs", "call_0"))


def test_calls_of_a_truncated_reply_are_not_executed():
    turn = new()
    seen = feed(turn, *call("ours", "1"), Stop("max_tokens"))

    assert [Stop("max_tokens")] == seen
    assert turn.finished


def test_an_error_ends_the_reply():
    turn = new()

    assert [Error("x", "y")] == feed(turn, Error("x", "y"))
    assert turn.finished


@pytest.mark.parametrize("event", [Text("ab"), Reasoning("ab"), ToolCallChunk("1", "ab", 0)])
def test_a_reply_above_the_limit_is_an_error(event):
    turn = new(max_reply=1)
    feed(turn, ToolCallStart("1", "ours", 0))
    with pytest.raises(UpstreamError, match="longer than the limit"):
        feed(turn, event)
