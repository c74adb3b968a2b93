"""Nodes of strict JSON with their positions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.schema.node import Node, load_json, scan
from tests.schema.generate import VALUES

NOT_JSON = [
    *(
        "",
        " ",
        "{",
        "[",
        "]",
        "}",
        ",",
        ":",
        "nul",
        "nulll",
        "True",
        "NaN",
        "-Infinity",
        "+1",
        "01",
        "1.",
        ".5",
        "1e",
        "-",
    ),
    *("[1,]", "[,1]", "[1 2]", "[1}", "{]", "[1:2]", "[1]]", "1 2", "[] []", "'a'", '"a', '"\t"', '"\\x"', '"\\u12"'),
    *('{"a"}', '{"a":}', '{"a":1,}', '{"a" 1}', "{1: 2}", '{"a": 1 "b": 2}', '{"a":: 1}', '{"a", "b"}', "{true: 1}"),
    *("{{}: 1}", '"\\ud800"', '"\\udc00\\ud800"', '"\ud800"', '{"\\ud800": 1}', "\u00a01", "\ufeff1", "// x\n1"),
    *('{"a": 1, "a": 2}', '{"a": 1, "\\u0061": 2}', "1" * 4001, "[" * 65 + "]" * 65),
]


def value_of(node: Node):
    match node.kind:
        case "object":
            return {key: value_of(child) for key, child in zip(node.keys, node.children, strict=True)}
        case "array":
            return [value_of(child) for child in node.children]
        case _:
            return node.value


def places(node: Node):
    yield node
    for child in node.children:
        yield from places(child)


@given(value=VALUES, indent=st.sampled_from([None, 0, 2]))
def test_nodes_have_the_values_and_positions_of_the_json(value, indent):
    text = json.dumps(value, indent=indent)
    node = scan(f" {text}\n")

    assert node is not None
    assert json.dumps(value) == json.dumps(value_of(node))
    assert all(json.dumps(value_of(inner)) == json.dumps(json.loads(inner.text)) for inner in places(node))


def test_a_node_has_a_pointer_from_the_outermost_value():
    node = scan('{"a/b": [1, {"~": 2}]}')

    assert node is not None
    assert ["", "/a~1b", "/a~1b/0", "/a~1b/1", "/a~1b/1/~0"] == [inner.pointer for inner in places(node)]
    assert [0, 1, 2, 2, 3] == [inner.depth for inner in places(node)]


@pytest.mark.parametrize("text", NOT_JSON, ids=lambda text: text[:20].encode("ascii", "backslashreplace").decode())
def test_invalid_json_gives_no_node(text):
    assert scan(text) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("5", "integer"),
        ("-0", "integer"),
        ("5.0", "fraction"),
        ("5e0", "fraction"),
        ("5E+1", "fraction"),
        ("null", "null"),
    ],
)
def test_the_kind_of_a_number_is_how_it_is_written(text, kind):
    node = scan(text)

    assert node is not None
    assert kind == node.kind


def test_depth_counts_from_the_position_of_the_text():
    assert scan("[[]]", 62) is not None
    assert scan("[[]]", 63) is None
    assert scan("5", 64) is not None


def test_a_number_that_no_double_holds_stays_text():
    assert {"a": ["1e999", -1.5, 10**30]} == load_json('{"a": [1e999, -1.5, 1' + "0" * 30 + "]}")
