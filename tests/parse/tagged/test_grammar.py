"""The grammar of tagged calls and the reader agree on what models may write."""

import json
import re

from hypothesis import assume, example, given
from hypothesis import strategies as st
from lark import Token, Tree

from fcshim.parse.grammar import load_grammar
from fcshim.parse.stream import parse
from tests.parse.laws import Piece, executable, normalise

Calls = list[tuple[str, dict[str, str]]]

spaces = st.sampled_from(["", "\n", " ", "\n\n", "\n  "])
remarks = st.sampled_from(["", "", "", "So: ", "here they are"])
closings = st.sampled_from([1, 1, 1, 1, 0, 2])
names = st.sampled_from(["f", "get_weather", '"g"', "a-b", "größe"])
pieces = st.sampled_from(
    [
        *("Paris", "5", "\n", "\n\n", " ", "a < b", "<", "</", "<b>", "größe", '"', "\\n", "x\n</b>\n"),
        *(
            "</parameter>.",
            "</function>.",
            "</tool_call>.",
            "<tool_call>",
            "<function=",
            "<parameter=",
            " <parameter=z>",
        ),
        "<function=f>\n<parameter=k>\n1\n</parameter>\n</function>",
    ]
)
values = st.lists(pieces, max_size=5).map("".join)


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """A body with calls, and with the leniencies that the grammar names."""
    outer = draw(st.sampled_from(["<tool_call>", "<tool_call>", ""]))
    calls = "".join(draw(st.lists(_calls(strict=not outer), min_size=1, max_size=3)))
    return outer + draw(spaces) + calls + "</tool_call>"


@st.composite
def _calls(draw: st.DrawFn, *, strict: bool) -> str:
    """One call; without an outer tag it must look like one from its first tag on."""
    doubled = 1 if strict else draw(st.sampled_from([1, 1, 1, 2]))
    opening = (f"<function={draw(names)}>" + draw(spaces)) * doubled
    keys = draw(st.lists(st.sampled_from("abcde"), unique=True, max_size=3))
    closing = ("</function>" + draw(spaces)) * (draw(closings) if keys else 1)
    parameters = "".join(draw(_parameters(key, must_close=key == keys[-1] and not closing)) for key in keys)
    return opening + parameters + closing


@st.composite
def _parameters(draw: st.DrawFn, key: str, *, must_close: bool) -> str:
    """One parameter; without any closing tag behind it a call that follows would be a part of its value."""
    closing = draw(
        st.sampled_from(["\n</parameter>", "\n</parameter>", "</parameter>", *([] if must_close else ["\n"])])
    )
    value = draw(values)
    if "</parameter>" not in closing or "<parameter=z>" in value:  # another reading of the value is possible
        for tag in ("</parameter>", "</function>.", "</tool_call>."):
            value = value.replace(tag, "</b>.")
    if "</parameter>" not in closing and value.rstrip().endswith(("<", "</", ">", "=")):
        value += "."  # a piece of the closing tag
    return f"<parameter={key}>" + draw(st.sampled_from(["\n", ""])) + "v" + value + closing + draw(spaces)


@given(bodies())
@example("<tool_call>\n<function=f>\n<parameter=a>\n</parameter>\n</function>\n</tool_call>")
@example("<function=f></function>")
def test_the_reader_agrees_with_the_grammar(body: str) -> None:
    names = re.findall(r"(?:<function=([^>]*)>\s*)+", body)
    assume(len(names) == len(set(names)))  # the reader takes a call that is repeated for one that was begun again
    pieces = normalise(parse(body, "qwen3_xml"))
    assume(not any("a damaged tag" in _fault(piece) for piece in pieces))  # it refuses what may be another value

    assert _by_grammar(body) == _calls_of(pieces)


def _fault(piece: Piece) -> str:
    error = piece.get("error")
    return error["message"] if error else ""


def _calls_of(pieces: list[Piece]) -> Calls:
    return [(call["call"], json.loads(call["arguments"])) for call in executable(pieces)]


def _by_grammar(body: str) -> Calls:
    tree = load_grammar("tagged_call").parse(body)
    return [_call(call) for call in tree.find_data("call")]


def _call(tree: Tree[Token]) -> tuple[str, dict[str, str]]:
    name = [str(token) for token in tree.children if isinstance(token, Token) and token.type == "CALL"][-1]
    return _name(name), dict(map(_parameter, tree.find_data("parameter")))


def _parameter(tree: Tree[Token]) -> tuple[str, str]:
    tokens = {token.type: str(token) for token in tree.children if isinstance(token, Token)}
    return _name(tokens["PARAMETER"]), tokens.get("VALUE", "")


def _name(tag: str) -> str:
    return tag.strip()[:-1].partition("=")[2].strip('"')
