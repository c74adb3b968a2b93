"""The reader of Gemma's calls, which accepts the same bodies as the grammar."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.parse.grammar import load_grammar
from fcshim.parse.stream import StreamParser
from tests.parse.cases import Case, check
from tests.parse.laws import Piece, check_reply, executable
from tests.parse.literals.strategies import WrittenValue, calls_of, gemma_objects

OPEN, CLOSE = "<|tool_call>", "<tool_call|>"


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, list[WrittenValue]]:
    """A block of calls, with their values."""
    written = [(name, draw(gemma_objects())) for name in draw(st.lists(st.sampled_from("fg"), min_size=1, max_size=2))]
    return "".join(f"call:{name}{text}" for name, (text, _) in written), [(n, value) for n, (_, value) in written]


def _read(body: str) -> list[WrittenValue]:
    text = OPEN + body + CLOSE
    parser = StreamParser("gemma4")
    pieces = executable(check_reply(text, "complete", parser.feed(text) + parser.close()))
    return [(piece["call"], json.loads(piece["arguments"])) for piece in pieces]


@given(calls())
def test_any_split_gives_the_written_calls(written: tuple[str, list[WrittenValue]]) -> None:
    text, expected = written
    pieces: list[Piece] = [{"call": name, "value": value} for name, value in expected]

    check(Case("written", OPEN + text + CLOSE, [*pieces, {"stop": "tool_use"}], options={"dialect": "gemma4"}))


@given(calls())
def test_the_grammar_and_the_reader_agree(written: tuple[str, list[WrittenValue]]) -> None:
    text, expected = written

    assert expected == calls_of(load_grammar("gemma_call").parse(text)) == _read(text)


TOLERATED_BODIES = [
    "call: f {\n a : 1 ,\n 'b c' : \"x\\n\" }}}, call:g{}",
    'call:f{a:[1,{b:<|"|>x<|"|>',
    "call:f{when:12:30,cmp:a < b,l:[red, dark blue],}",
]


@pytest.mark.parametrize("body", TOLERATED_BODIES)
def test_the_grammar_and_the_reader_agree_on_tolerated_bodies(body: str) -> None:
    brackets = sum(map(body.count, "[{")) - sum(map(body.count, "]}"))

    assert calls_of(load_grammar("gemma_call").parse(body + "\x00" * max(0, brackets))) == _read(body)


def test_a_string_streams_while_it_is_written() -> None:
    parser = StreamParser("gemma4")
    parser.feed('<|tool_call>call:write{content:<|"|>#')
    chunks = [[event.tool_call_arguments_chunk for event in parser.feed(piece)] for piece in ("impo", 'rt "', " <")]  # type: ignore[union-attr] # all are chunks

    assert [["impo"], ['rt \\"'], [" "]] == chunks
