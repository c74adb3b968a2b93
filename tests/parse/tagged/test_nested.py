"""Nested elements become objects and arrays, by the schema or by their names."""

import json

import pytest

from fcshim.events import JSON
from fcshim.parse.limits import Limits
from fcshim.parse.stream import StreamParser, parse
from tests.parse.laws import Piece, check_reply

NS = "]<]minimax[>["
OPEN = f'{NS}<tool_call>\n{NS}<invoke name="f">'
CLOSE = f"{NS}</invoke>\n{NS}</tool_call>"


def _element(name: str, content: str) -> str:
    return f"{NS}<{name}>{content}{NS}</{name}>"


def _call(content: str, schema: JSON = None, *, close: str = CLOSE) -> Piece:
    """Read a call with one parameter `k`, whole and character by character, which must give the same events."""
    tools = None if schema is None else [{"name": "f", "parameters": {"type": "object", "properties": {"k": schema}}}]
    text = f"{OPEN}{content}{close}"
    whole = check_reply(text, "complete", parse(text, "minimax_m3", tools))
    parser = StreamParser("minimax_m3", tools)
    events = [event for character in text for event in parser.feed(character)]

    assert whole == check_reply(text, "complete", events + parser.close())

    (call,) = (piece for piece in whole if "call" in piece)
    return call


ARRAY = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object", "properties": {"item": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("content", "schema", "value"),
    [
        (_element("item", "1") + _element("item", "2"), None, [1, 2]),
        (_element("item", "1") + _element("item", "2"), ARRAY, ["1", "2"]),
        (_element("item", "1"), OBJECT, {"item": 1}),
        (_element("x", "1"), ARRAY, ["1"]),
        (_element("x", _element("y", _element("z", "a"))), None, {"x": {"y": {"z": "a"}}}),
        ("", ARRAY, []),
        ("\n ", OBJECT, {}),
        (" ", {"type": "string"}, " "),
        ("[1]", {"type": "array"}, [1]),
        (" " * 300 + _element("x", "1"), {"type": "string"}, " " * 300 + _element("x", "1")),
        ("a" + _element("x", "b"), {"type": "string"}, "a" + _element("x", "b")),
        (f"{NS} {NS}<{NS}</ {NS}", {"type": "string"}, f"{NS} {NS}<{NS}</ {NS}"),
    ],
)
def test_the_schema_or_the_first_child_decides_the_kind_of_an_element(content: str, schema: JSON, value: JSON) -> None:
    call = _call(_element("k", content), schema)

    assert ({"k": value}, None) == (json.loads(call["arguments"]), call["error"])


def test_a_closing_tag_closes_the_open_elements_inside() -> None:
    assert {"k": ["a"]} == json.loads(_call(f"{NS}<k>{NS}<item>a{NS}</k>", ARRAY)["arguments"])


def test_the_end_of_the_call_closes_open_elements() -> None:
    assert {"k": ["a"]} == json.loads(_call(f"{NS}<k>{NS}<item>a", ARRAY)["arguments"])


def test_text_beside_elements_is_an_error() -> None:
    assert "malformed" == _call(_element("k", _element("item", "a") + "b"), ARRAY)["error"]["kind"]


def test_the_depth_of_elements_is_limited() -> None:
    content = "x"
    for _ in range(80):
        content = _element("x", content)

    assert "limit" == _call(_element("k", content))["error"]["kind"]


@pytest.mark.parametrize("content", [_element("item", "x" * 30), _element("item", "0") * 30])
def test_the_size_of_elements_is_limited(content: str) -> None:
    text = f"{OPEN}{_element('k', content)}{CLOSE}"
    (call, _) = check_reply(text, "complete", parse(text, "minimax_m3", limits=Limits(arguments=30)))

    assert "limit" == call["error"]["kind"]


@pytest.mark.parametrize("content", ["", "\n", _element("x", ""), f"{NS}<>1{NS}</>", f"{NS}<<b>>1{NS}</<b>>"])
def test_what_may_be_text_or_elements_is_an_error_where_the_schema_admits_both(content: str) -> None:
    assert "malformed" == _call(_element("k", content))["error"]["kind"]
    assert "malformed" == _call(_element("k", _element("x", content)), {"type": "object"})["error"]["kind"]


@pytest.mark.parametrize("key", ["./raw", "a b", "a/b", "*"])
def test_a_key_may_have_blanks_and_slashes(key: str) -> None:
    call = _call(_element("k", _element("x", _element(key, "1"))), {"type": "object"})

    assert ({"k": {"x": {key: 1}}}, None) == (json.loads(call["arguments"]), call["error"])


def test_an_element_twice_is_an_error() -> None:
    assert "malformed" == _call(_element("k", "a") + _element("k", "b"))["error"]["kind"]


def test_a_string_in_elements_is_sent_as_it_arrives() -> None:
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"k": ARRAY}}}]
    parser = StreamParser("minimax_m3", tools)
    parser.feed(f"{OPEN}{NS}<k>{NS}<item>a")

    assert all(len(parser.feed("abcd")) == 1 for _ in range(100))


def test_a_coercion_is_reported_with_its_path() -> None:
    call = _call(_element("k", _element("item", "True")), {"type": "array", "items": {"type": "boolean"}})

    assert [{"path": "/k/0", "from": "True", "to": True}] == call["coerced"]
