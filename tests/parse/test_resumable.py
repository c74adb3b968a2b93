"""Resumable arguments: sent up to the first value that violates the schema; the end of the call has the remainder."""

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.constrain.call_template import write_partial_calls
from fcshim.constrain.constraint import constraint_for_rest
from fcshim.constrain.partial_schema import order_by_prefix
from fcshim.events import Event, StopReason, Text, ToolCallChunk, ToolCallEnd
from fcshim.messages import Request, Tool, ToolChoice
from fcshim.parse.defect import Defect
from fcshim.parse.dialects import get_dialect
from fcshim.parse.stream import StreamParser
from fcshim.prompt.render import render_calls
from tests.parse.laws import Piece, normalise

POINT = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"], "additionalProperties": False}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "on": {"type": "boolean"},
        "unit": {"enum": ["c", "f"]},
        "text": {"type": "string"},
        "at": POINT,
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["count"],
    "additionalProperties": False,
}
TOOL = Tool("set", "Set.", SCHEMA)
DIALECTS = ["function_call", "hermes", "mistral", "qwen3_xml", "glm", "pythonic", "gemma4"]
scalars = st.sampled_from([1, 2.5, True, False, "c", "C", "k", "7", "a b", "}", None])
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.sampled_from(["x", "y"]), scalars, max_size=2)
arguments = st.dictionaries(st.sampled_from([*SCHEMA["properties"], "more"]), values, max_size=4)
stops: st.SearchStrategy[StopReason] = st.sampled_from(["complete", "max_tokens"])


Reply = tuple[list[Event], list[Defect]]


def read(text: str, mode: Any, dialect: str, cuts: list[int], stop: StopReason = "complete") -> Reply:
    """Return the events, and the defects of calls that did not become text."""
    defects: list[Defect] = []
    parser = StreamParser(dialect, [TOOL], arguments=mode, on_defect=defects.append)
    ends = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    events = [event for start, end in itertools.pairwise(ends) for event in parser.feed(text[start:end])]
    events += parser.close(stop)
    return [event for event in events if event != Text("")], [each for each in defects if each.kind == "invalid"]


def normalise_all(reply: Reply) -> list[Piece]:
    """Normalise the events, after adding the unsent arguments."""
    events, defects = reply
    unsent = {defect.tool_call_id: defect.unsent for defect in defects}
    complete: list[Event] = []
    for event in events:
        if isinstance(event, ToolCallEnd) and unsent.get(event.tool_call_id):
            complete.append(ToolCallChunk(event.tool_call_id, unsent[event.tool_call_id], event.index))
        complete.append(event)
    return normalise(complete)


@given(
    st.lists(arguments, min_size=1, max_size=2),
    st.sampled_from(DIALECTS),
    st.lists(st.integers(0, 999)),
    stops,
    st.data(),
)
@example([{"count": "x", "text": "y"}], "function_call", list(range(99)), "complete", None)
def test_resumable_arguments_equal_streamed_arguments(
    calls: list[dict[str, Any]], dialect: str, cuts: list[int], stop: StopReason, data: st.DataObject | None
) -> None:
    """The one exception is a call that fails after a violation: its arguments end before the violation."""
    text = render_calls(get_dialect(dialect), [("set", json.dumps(each)) for each in calls])
    if data is not None and data.draw(st.booleans()):
        text = text[: data.draw(st.integers(0, len(text)))]
    streamed = normalise_all(read(text, "stream", dialect, cuts, stop))
    for some in (cuts, [], list(range(len(text)))):
        resumable = normalise_all(read(text, "resumable", dialect, some, stop))

        assert len(streamed) == len(resumable)
        for one, other in zip(streamed, resumable, strict=True):
            shorter = bool(other.get("error")) and one["arguments"].startswith(other["arguments"])
            assert one == other or (shorter and one["error"]["kind"] == other["error"]["kind"])


@given(arguments, st.sampled_from(["function_call", "hermes", "mistral"]), st.lists(st.integers(0, 999)))
def test_sent_arguments_can_be_completed_validly(given: dict[str, Any], name: str, cuts: list[int]) -> None:
    dialect = get_dialect(name)
    events, defects = read(render_calls(dialect, [("set", json.dumps(given))]), "resumable", name, cuts)
    (end,) = [event for event in events if isinstance(event, ToolCallEnd)]
    if not defects:
        return

    sent = "".join(event.tool_call_arguments_chunk for event in events if isinstance(event, ToolCallChunk))
    begun = write_partial_calls(dialect, [("set", sent.rstrip())])
    tool = msgspec.structs.replace(TOOL, parameters=order_by_prefix(SCHEMA, sent))
    request = Request(model="m", messages=(), tools=(tool,), tool_choice=ToolChoice("required"))

    assert end.tool_call_arguments_complete == sent + defects[0].unsent
    assert begun is not None
    assert constraint_for_rest("gbnf", dialect, [tool], request, begun) is not None


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{"on": true}', '{"on": true'),
        ('{"count": true, "on": true}', "{"),
        ('{"count": 1, "on": 38.5}', '{"count": 1'),
        ('{"count": 1, "on": "maybe", "text": "x"}', '{"count": 1, "on": '),
        ('{"count": 1, "unit": "k"}', '{"count": 1, "unit": '),
        ('{"count": 1, "more": 2, "on": true}', '{"count": 1'),
        ('{"text": "a", "more": "b", "count": 1}', '{"text": "a"'),
        ('{"count": 1, "text": {"a": 1}}', '{"count": 1, "text": '),
        ('{"count": 1, "at": [2]}', '{"count": 1, "at": '),
        ('{"count": 1, "at": {"x": true}}', '{"count": 1, "at": {'),
        ('{"count": 1, "tags": ["a", {"b": 1}]}', '{"count": 1, "tags": ["a", '),
    ],
)
def test_sending_stops_before_the_first_invalid_value(written: str, sent: str) -> None:
    text = render_calls(get_dialect("function_call"), [("set", "{}")]).replace("{}", written)
    for cuts in ([], list(range(len(text)))):
        events, (defect,) = read(text, "resumable", "function_call", cuts)

        assert sent == "".join(event.tool_call_arguments_chunk for event in events if isinstance(event, ToolCallChunk))
        assert written == sent + defect.unsent
        assert Defect("invalid", "set", events[0].tool_call_id, defect.message, defect.unsent) == defect


@pytest.mark.parametrize("written", ['{"count": "5"}', '{"count": 1, "unit": "C"}', '{"count": 1, "on": null}'])
def test_a_coerced_value_does_not_stop_sending(written: str) -> None:
    text = render_calls(get_dialect("function_call"), [("set", "{}")]).replace("{}", written)

    assert [] == read(text, "resumable", "function_call", list(range(len(text))))[1]


def test_without_a_receiver_of_defects_all_arguments_are_sent() -> None:
    text = render_calls(get_dialect("function_call"), [("set", '{"on": 38.5}')])
    parser = StreamParser("function_call", [TOOL], arguments="resumable")

    assert '{"on": 38.5}' == normalise(parser.feed(text) + parser.close())[0]["arguments"]


@pytest.mark.parametrize("text", ["%s", "```json\n%s\n```", "<call>\n%s\n</call>", "`%s`"])
@pytest.mark.parametrize("written", ['{"count": "two"}', '{"on": true}', '{"count": 1, "tags": "None"}'])
@pytest.mark.parametrize("mode", ["stream", "resumable"])
def test_a_violation_in_a_call_that_may_be_quoted_is_reported(mode: Any, text: str, written: str) -> None:
    """Such a call is sent whole, so nothing of it is unsent."""
    said = text % f'{{"name": "set", "arguments": {written}}}'
    for size in (len(said), 1):
        defects: list[Defect] = []
        parser = StreamParser("function_call", [TOOL], rescue=True, arguments=mode, on_defect=defects.append)
        events = [event for at in range(0, len(said), size) for event in parser.feed(said[at : at + size])]
        (call,) = [event for event in events + parser.close() if isinstance(event, ToolCallEnd)]

        assert [("invalid", "set", "")] == [(each.kind, each.tool_name, each.unsent) for each in defects]
        assert (written, None) == (call.tool_call_arguments_complete, call.error)


@pytest.mark.parametrize("dialect", ["function_call", "hermes", "bare_json", "mistral"])
def test_a_tool_that_is_not_offered_is_reported_once(dialect: str) -> None:
    defects: list[Defect] = []
    parser = StreamParser(dialect, [TOOL], rescue=True, on_defect=defects.append)
    parser.feed(render_calls(get_dialect(dialect), [("unknown", '{"a": 1}')]))
    parser.close()

    assert [Defect("unoffered", "unknown")] == defects


def _check_is_text_with_defect(dialect: str, text: str, defect: Defect) -> None:
    """Check, under several splits, that the whole reply is text and that only this defect is reported."""
    for size in (len(text), 3, 1):
        defects: list[Defect] = []
        parser = StreamParser(dialect, [TOOL], rescue=True, on_defect=defects.append)
        events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
        events = [event for event in events + parser.close() if event != Text("")]  # it marks the defect

        assert [{"text": text}, {"stop": "complete"}] == normalise(events)
        assert [defect] == defects


@pytest.mark.parametrize(
    "written", ['"Oslo"', "Oslo", "'Oslo'", "`Oslo`", '"{\\"a\\": 1}"', "[1]", "None", "```\nOslo\n```"]
)
def test_an_action_input_that_is_not_an_object_is_text_and_reported(written: str) -> None:
    """In ReAct nothing shows where such an input ends, so it stays, and is asked for again."""
    said = f"Thought: I look.\nAction: set\nAction Input: {written}\nObservation: 12 degrees"
    _check_is_text_with_defect("react", said, Defect("unreadable"))


@pytest.mark.parametrize(
    "written",
    [
        "<tool_call>set<tool_call>a</arg_key><arg_value>1</arg_value></tool_call>",
        "I set it.\n<tool_call>\nset a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
        "<minimax:tool_call>\nset: 1\n</minimax:tool_call>",
        '<function_call>functions.set "1"</function_call>',
    ],
)
@pytest.mark.parametrize("dialect", ["auto", "glm", "hermes"])
def test_a_name_between_markers_before_an_unknown_syntax_is_text_and_reported(dialect: str, written: str) -> None:
    _check_is_text_with_defect(dialect, written, Defect("unreadable", is_restarted=True))


@pytest.mark.parametrize(
    "written",
    [
        '<tool_call>\n{"name":": "set", "arguments": {"a": 1}}\n</tool_call>',
        'I set it.\n<tool_call>{"name: "set", "arguments": {"a": 1}}</tool_call>',
        '<tool_call>{"nam": "set", "arguments": {"a": 1}}</tool_call>',
        '<function_call>{"name":"set, "arguments": {"a": 1}}</function_call>',
        "[TOOL_CALL]\n{tool => set, args => {\n  --count 1 2 --on\n}}\n[/TOOL_CALL]",
        '[TOOL_CALL]\n{tool => "set" args => {\n  --count: 1 2\n}}\n[/TOOL_CALL]',
    ],
)
@pytest.mark.parametrize("dialect", ["auto", "glm", "mistral"])
def test_an_unreadable_body_that_names_a_tool_is_reported_in_any_dialect(dialect: str, written: str) -> None:
    _check_is_text_with_defect(dialect, written, Defect("unreadable"))


@pytest.mark.parametrize(
    "written",
    [
        'Write <tool_call>{"name": : "set", "arguments": {"a": 1}}</tool_call>.',
        '<tool_call>{"name": : "other", "arguments": {"a": 1}}</tool_call>',
        "Write <tool_call>set a</arg_key></tool_call>.",
        "`<tool_call>set a</arg_key></tool_call>`",
        "> <tool_call>set a</arg_key></tool_call>",
        "<tool_call>other a</arg_key></tool_call>",
        "<plan>set a</plan>",
        "<tool_call>settings a</arg_key></tool_call>",
    ],
)
def test_such_text_is_not_reported_where_it_is_quoted_or_names_no_tool(written: str) -> None:
    defects: list[Defect] = []
    parser = StreamParser("auto", [TOOL], rescue=True, on_defect=defects.append)
    parser.feed(written)
    parser.close()

    assert [] == [defect for defect in defects if defect.kind == "unreadable"]


def test_a_value_that_the_whole_schema_admits_is_sent_late_but_unchanged() -> None:
    tool = Tool("set", "", {"properties": {"a": {"type": "integer", "oneOf": [{"const": 5}, {"const": 6}]}}})
    text = render_calls(get_dialect("function_call"), [("set", '{"a": 5.0, "b": 1}')])
    parser = StreamParser("function_call", [tool], arguments="resumable")
    events = [event for char in text for event in parser.feed(char)] + parser.close()

    assert normalise(events)[0]["error"] is None
