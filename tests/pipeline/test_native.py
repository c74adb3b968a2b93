"""The transform for native tools: mapped names, one call without parallel calls, replaced media."""

import msgspec
import pytest

from fcshim.codecs.upstreams import NameRules
from fcshim.events import (
    CallError,
    Error,
    Reasoning,
    Stop,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from fcshim.messages import (
    AssistantMessage,
    MediaPart,
    Request,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
)
from fcshim.pipeline.native import prepare_native

ALPHABET = NameRules()
DOTTED = ALPHABET.sanitize("a.b")


def native(*, media=True, **fields):
    given = {"model": "m", "messages": (UserMessage((TextPart("Hi"),)),), "tools": (Tool("f"), Tool("a.b")), **fields}
    return prepare_native(Request(**given), name_rules=ALPHABET, media=media)


def call(name, index=0, error=None):
    return [
        ToolCallStart(f"c{index}", name, index),
        ToolCallChunk(f"c{index}", "{}", index),
        ToolCallEnd(f"c{index}", name, "{}", index, error=error),
    ]


def passed(stage, *events):
    stream = stage.stream()
    return [made for event in events for made in stream.feed(event)] + stream.close()


def test_names_that_the_api_does_not_admit_are_mapped():
    request = native(
        messages=(
            AssistantMessage((), (ToolCall("c", "a.b", "{}"), ToolCall("d", "gone!", "{}"))),
            ToolMessage("c", (), "a.b"),
            ToolMessage("d", ()),
        ),
        tool_choice=ToolChoice("required", ("a.b",)),
    ).prepared

    assert ["f", DOTTED] == [tool.name for tool in request.tools]
    assert [DOTTED, ALPHABET.sanitize("gone!")] == [each.name for each in request.messages[0].tool_calls]
    assert [DOTTED, ""] == [message.name for message in request.messages[1:]]
    assert (DOTTED,) == request.tool_choice.names


def test_mapped_names_are_mapped_back():
    events = [Text("a"), *call("f"), *call(DOTTED, 1), Usage(1, 2), Stop("tool_use")]
    expected = [Text("a"), *call("f"), *call("a.b", 1), Usage(1, 2), Stop("tool_use")]

    assert expected == passed(native(), *events)


def test_without_parallel_calls_the_reply_ends_after_one():
    stream = native(parallel_tool_calls=False).stream()
    events = [
        made for event in [*call("f"), *call("f", 1), Usage(1, 2), Stop("tool_use")] for made in stream.feed(event)
    ]

    assert [*call("f"), Stop("tool_use"), Usage(1, 2)] == events
    assert stream.finished


def test_a_call_with_an_error_is_not_the_only_allowed_call():
    bad = CallError("malformed", "no", "raw")
    events = [*call("f", error=bad), *call("f", 1), Stop("tool_use")]

    assert [*call("f", error=bad), *call("f", 1), Stop("tool_use")] == passed(
        native(parallel_tool_calls=False), *events
    )


@pytest.mark.parametrize("event", [Text("a"), Reasoning("a", "s"), Error("e", "lost")])
def test_everything_else_passes(event):
    assert [event] == passed(native(), event)
    assert [Text("a")] == native().stream().feed_text("a")


def test_media_are_kept_or_replaced_by_a_line():
    picture = MediaPart("image/png", data="AA")
    messages = (UserMessage((TextPart("see "), picture)), ToolMessage("c", (picture,)))
    kept, told = (native(messages=messages, media=media).prepared.messages for media in (True, False))

    assert messages == kept
    assert (TextPart("see "), TextPart("[image: image/png]")) == told[0].content
    assert (TextPart("[image: image/png]"),) == told[1].content


def test_what_needs_no_change_is_not_changed():
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), tools=(Tool("f"),), stop=("END",))

    assert msgspec.json.encode(request) == msgspec.json.encode(prepare_native(request, name_rules=ALPHABET).prepared)
