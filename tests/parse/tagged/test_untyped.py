"""A value without a type gets the type of its schema, and is sent as it arrives where that is a string."""

from dataclasses import replace

import pytest

from fcshim.events import JSON, Coercion, ToolCallChunk, ToolCallEnd
from fcshim.messages import as_tools
from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.limits import DEFAULT_LIMITS
from fcshim.parse.sink import CallSink
from fcshim.parse.tagged.untyped import UntypedValue

LIMITS = replace(DEFAULT_LIMITS, search=40)


class Value:
    """One value of a call, and the part of it sent so far."""

    def __init__(self, schema: JSON = None, *, is_text: bool = False) -> None:
        tools = {tool.name: tool for tool in as_tools([{"name": "f", "parameters": {"properties": {"k": schema}}}])}
        self.sink = CallSink(tools if schema is not None else None, "stream", lambda: "id", LIMITS.arguments)
        self.writer = ArgumentWriter(self.sink, LIMITS)
        self.writer.start("f")
        self.writer.write('{"k": ')
        self.value = UntypedValue(self.writer, self.writer.expectation.member("k"), LIMITS, ("k",), is_text=is_text)

    def add(self, *pieces: str) -> str:
        for piece in pieces:
            self.value.add(piece)
        return self.sent

    def end(self) -> str:
        self.value.end()
        self.writer.write("}")
        return "".join(self._chunks()).removeprefix('{"k": ').removesuffix("}")

    @property
    def sent(self) -> str:
        return "".join(self._chunks()).removeprefix("{").removeprefix('"k": ')

    def _chunks(self) -> list[str]:
        return [event.tool_call_arguments_chunk for event in self.sink.events if isinstance(event, ToolCallChunk)]


@pytest.mark.parametrize(
    ("value", "pieces", "sent"),
    [
        (Value({"type": "string"}), ["a", '"\n'], '"a\\"\\n'),
        (Value({"type": ["string", "integer"]}, is_text=True), ["5"], '"5'),
        (Value(is_text=True), ["5"], '"5'),
        (Value(), ["So"], '"So'),
        (Value(), ["  \n", "tr", "y"], '"  \\ntry'),
        (Value(), ["trueish"], '"trueish'),
    ],
)
def test_a_string_is_sent_as_it_arrives(value: Value, pieces: list[str], sent: str) -> None:
    assert value.value.is_text or not sent.startswith('"5')
    assert sent == value.add(*pieces)


@pytest.mark.parametrize(
    ("value", "pieces", "whole"),
    [
        (Value({"type": "integer"}), ["1", "2"], "12"),
        (Value({"type": "boolean"}), ["True"], "true"),
        (Value({"type": "string", "enum": ["x"]}), ["x"], '"x"'),
        (Value({"type": ["string", "integer"]}), ["5"], "5"),
        (Value(), ["tr", "ue"], "true"),
        (Value(), ["{", '"a": 1}'], '{"a": 1}'),
        (Value(), ["[oops"], '"[oops"'),
    ],
)
def test_any_other_value_waits_until_it_is_complete(value: Value, pieces: list[str], whole: str) -> None:
    assert "" == value.add(*pieces)
    assert whole == value.end()


@pytest.mark.parametrize(
    ("schema", "text", "coerced"),
    [
        ({"type": "integer"}, " 5 ", []),
        ({"type": "string", "enum": ["x"]}, "x", []),
        ({"type": "boolean"}, "True", [Coercion("/k", "True", True)]),
        ({"type": "string", "enum": ["x"]}, "X", [Coercion("/k", "X", "x")]),
        ({"type": "array", "items": {"type": "integer"}}, "7", [Coercion("/k", "7", [7])]),
    ],
)
def test_a_coercion_is_reported(schema: JSON, text: str, coerced: list[Coercion]) -> None:
    value = Value(schema)
    value.add(text)
    value.end()
    value.writer.complete()
    value.sink.finish()
    end = value.sink.events[-1]

    assert isinstance(end, ToolCallEnd)
    assert coerced == end.coerced


@pytest.mark.parametrize("schema", [None, {"type": "array"}, {"type": ["array", "string"]}])
def test_long_json_is_sent_as_json(schema: JSON) -> None:
    value = Value(schema)
    numbers = ", ".join(map(str, range(30)))

    assert value.add("[", numbers, "]").startswith("[0, 1, 2")
    assert f"[{numbers}]" == value.end()


def test_long_text_that_only_began_like_json_is_an_error() -> None:
    with pytest.raises(NotStrictError):
        Value().add("[see] " * 10)


def test_long_json_that_breaks_is_an_error() -> None:
    value = Value()
    value.add("[" + "1, " * 20)

    with pytest.raises(NotStrictError):
        value.add("oops")


def test_a_long_value_that_the_schema_does_not_admit_is_refused() -> None:
    with pytest.raises(LimitError, match="more than 40 characters"):
        Value({"type": "integer"}).add("1" * 50)
