"""Failures of native tools are reported, and the events stay unchanged."""

import pytest

from fcshim.codecs.upstreams import NameRules
from fcshim.events import CallError, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import Request, TextPart, Tool, ToolChoice, UserMessage
from fcshim.pipeline.native import prepare_native
from fcshim.pipeline.native_check import CheckedNative

TAGGED = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
CALL = [ToolCallStart("c", "f", 0), ToolCallChunk("c", "{}", 0), ToolCallEnd("c", "f", "{}", 0)]


def reported_failures(*events, mode="auto"):
    """Return the reported reasons; check that the events passed unchanged."""
    request = Request(
        model="m", messages=(UserMessage((TextPart("Hi"),)),), tools=(Tool("f"),), tool_choice=ToolChoice(mode)
    )
    reasons = []
    stage = CheckedNative(prepare_native(request, name_rules=NameRules()), reasons.append)
    stream = stage.stream()

    assert request == stage.prepared
    assert list(events) == [made for event in events for made in stream.feed(event)] + stream.close()
    assert not stream.finished
    return reasons


@pytest.mark.parametrize("size", [1, 5, 100])
def test_a_call_in_the_text_is_reported_once_and_stays_text(size):
    pieces = [Text(TAGGED[at : at + size]) for at in range(0, len(TAGGED), size)]

    assert ["it leaves calls in the text"] == reported_failures(*pieces, Text(TAGGED), Usage(1, 1), Stop("complete"))


def test_a_call_without_end_marker_is_reported_at_the_end():
    assert ["it leaves calls in the text"] == reported_failures(
        Text(TAGGED.removesuffix("</tool_call>")), Stop("complete")
    )


@pytest.mark.parametrize(
    "text",
    [
        "Hello",
        f"```\n{TAGGED}\n```\nis how it looks",
        TAGGED.replace('"f"', '"g"'),
        TAGGED.removesuffix("}}\n</tool_call>"),
    ],
)
def test_text_that_is_no_call_is_not_reported(text):
    assert [] == reported_failures(Text(text), Stop("complete"))


def test_a_missing_required_call_is_reported():
    assert ["no call came although one was demanded"] == reported_failures(
        Text("No."), Stop("complete"), mode="required"
    )
    assert [] == reported_failures(Text("No."), Stop("max_tokens"), mode="required")
    assert [] == reported_failures(Text("No."), Stop("complete"))


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_an_upstream_with_native_calls_is_not_reported(mode):
    assert [] == reported_failures(*CALL, Text(TAGGED), Stop("tool_use"), mode=mode)


def test_without_parallel_calls_the_reply_still_ends_after_one():
    request = Request(model="m", messages=(), tools=(Tool("f"),), parallel_tool_calls=False)
    stream = CheckedNative(prepare_native(request, name_rules=NameRules()), print).stream()
    for event in CALL:
        stream.feed(event)

    assert stream.finished


def test_a_call_with_an_error_counts_as_a_native_call():
    bad = ToolCallEnd("c", "f", "{", 0, error=CallError("malformed", "no", "{"))

    assert [] == reported_failures(CALL[0], ToolCallChunk("c", "{", 0), bad, Stop("complete"), mode="required")
