"""Arguments written token by token."""

import json
from collections.abc import Callable

import pytest

from fcshim.events import JSON, Coercion, ToolCallChunk, ToolCallEnd
from fcshim.messages import as_tools
from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.tokens import TokenWriter
from fcshim.parse.limits import DEFAULT_LIMITS, Limits
from fcshim.parse.sink import CallSink

Write = Callable[[TokenWriter], None]


def _writer(schema: JSON = None, limits: Limits = DEFAULT_LIMITS) -> tuple[TokenWriter, CallSink]:
    tools = {tool.name: tool for tool in as_tools([{"name": "f", "parameters": schema}])} if schema else None
    sink = CallSink(tools, "stream", lambda: "id", limits.arguments)
    writer = TokenWriter(sink, limits)
    writer.start("f")
    writer.open("{")
    return writer, sink


def _ended(writer: TokenWriter, sink: CallSink) -> ToolCallEnd:
    writer.close("}")
    writer.flush()
    writer.complete()
    sink.finish()
    end = sink.events[-1]
    assert isinstance(end, ToolCallEnd)
    return end


def _sent(sink: CallSink) -> str:
    return "".join(event.tool_call_arguments_chunk for event in sink.events if isinstance(event, ToolCallChunk))


def _write_string(writer: TokenWriter, text: str) -> None:
    writer.begin_string()
    writer.buffer.add_content(json.dumps(text)[1:-1])
    writer.buffer.end_string()


def test_commas_and_colons_are_added_automatically() -> None:
    writer, sink = _writer()
    writer.write_key("a")
    writer.open("[")
    writer.write_atom("1")
    _write_string(writer, 'x"')
    writer.open("[")
    writer.close("]")
    writer.open("{")
    writer.write_key("b")
    writer.write_atom("null")
    writer.write_key("c")
    _write_string(writer, "")
    writer.close("}")
    writer.close("]")
    writer.write_key("d")
    writer.write_atom("2")

    assert '{"a": [1, "x\\"", [], {"b": null, "c": ""}], "d": 2}' == _ended(writer, sink).tool_call_arguments_complete


def test_a_key_is_sent_with_its_value() -> None:
    writer, sink = _writer()
    writer.write_key("a")
    writer.flush()
    before = _sent(sink)
    writer.begin_string()
    writer.flush()

    assert ("{", '{"a": "') == (before, _sent(sink))


def test_the_content_of_a_string_is_sent_at_once() -> None:
    writer, sink = _writer()
    writer.write_key("a")
    writer.begin_string()
    writer.buffer.add_content("x")
    writer.flush()

    assert writer.arguments.streams
    assert '{"a": "x' == _sent(sink)


@pytest.mark.parametrize("again", ["a", "\\u0061"])
def test_a_duplicate_key_is_refused(again: str) -> None:
    writer, _ = _writer()
    writer.write_key("a")
    writer.write_atom("1")

    with pytest.raises(NotStrictError):
        writer.write_key(again)


@pytest.mark.parametrize(
    ("limits", "write"),
    [
        (Limits(depth=1), lambda writer: writer.open("[")),
        (Limits(number=3), lambda writer: writer.write_atom("1234")),
        (Limits(arguments=6), lambda writer: (writer.write_atom("true"), writer.flush())),
    ],
)
def test_text_beyond_a_limit_is_refused(limits: Limits, write: Write) -> None:
    writer, _ = _writer(limits=limits)
    writer.write_key("a")

    with pytest.raises(LimitError):
        write(writer)


@pytest.mark.parametrize(
    ("schema", "write", "arguments", "coerced"),
    [
        ({"type": "integer"}, lambda writer: _write_string(writer, "5"), '{"a": 5}', [Coercion("/a", "5", 5)]),
        ({"type": "string"}, lambda writer: writer.write_atom("5"), '{"a": "5"}', [Coercion("/a", 5, "5")]),
        ({"type": "string"}, lambda writer: writer.write_atom("null"), "{}", [Coercion("/a", None, None)]),
        ({"type": "integer"}, lambda writer: writer.write_atom("5"), '{"a": 5}', []),
    ],
)
def test_values_are_coerced_to_the_schema(schema: JSON, write: Write, arguments: str, coerced: list[Coercion]) -> None:
    writer, sink = _writer({"type": "object", "properties": {"a": schema}})
    writer.write_key("a")
    write(writer)
    end = _ended(writer, sink)

    assert (arguments, coerced) == (end.tool_call_arguments_complete, end.coerced)


def test_the_first_key_after_a_dropped_null_has_no_comma() -> None:
    writer, sink = _writer({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}})
    writer.write_key("a")
    writer.write_atom("null")
    writer.write_key("b")
    writer.write_atom("1")

    assert '{"b": 1}' == _ended(writer, sink).tool_call_arguments_complete
