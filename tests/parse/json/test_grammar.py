"""The search for readings reads what the grammar of JSON bodies accepts."""

import ast
import json
from typing import Any

import pytest
from lark import Token, Tree

from fcshim.parse.grammar import load_grammar
from fcshim.parse.readings.json import read_json

SIGNS = {"LSQB", "RSQB", "END"}
TOLERATED_BODIES = [
    '{"a": 1,}',
    "{'a': 'it is', 'b': [1, 2,],}",
    '{a: 1, "b": True, c.d: None}',
    '{"a": 1 "b": "x"}',
    '{"a" "x"}',
    '{"a": Paris, "b": two words}',
    "{“a”: “x”}",
    '{"a" = 1, "b" => [.5, +1, 1_000, 0x1F]}',
    '{"a": 1. "b": 2}',
    '{"a": 1 /* x */, # y\n "b": null}',
    '{"a": {"b": 1}}}',
    '{"a": [{"b": [1, [2]]}, {"c": {}}',
    '{"a": [1, 2}',
    '{"a": """say \\"hi\\"""", "b": \'\'\'x\'\'\'}',
]


@pytest.mark.parametrize("body", TOLERATED_BODIES)
def test_the_search_reads_what_the_grammar_accepts(body: str) -> None:
    open_brackets = sum(map(body.count, "{[")) - sum(map(body.count, "}]"))
    tree = load_grammar("json_call").parse(body + "\x00" * max(0, open_brackets))
    expected = next(_value(child) for child in tree.children if isinstance(child, Tree))

    assert expected == json.loads(read_json(None, "start", body).text)


def _value(node: Tree[Token] | Token) -> Any:
    match node:
        case Tree(data="object", children=children):
            pairs = (child.children for child in children if isinstance(child, Tree))
            return {_text(pair[0]): _value(pair[1]) for pair in pairs if isinstance(pair[0], Token)}
        case Tree(children=children):
            return [_value(child) for child in children if isinstance(child, Tree) or child.type not in SIGNS]
        case Token(type="NUMBER" | "HEX"):
            return ast.literal_eval(node)
        case Token(type="LITERAL"):
            return {"t": True, "f": False, "n": None}[node[0].lower()]
    return _text(node)


def _text(token: Token) -> str:
    match token.type:
        case "V_CURLY" | "K_CURLY":
            return token[1:-1]
        case "K_WORD" | "V_WORDS":
            return token.strip()
    return str(ast.literal_eval(token))
