"""Properties of tagged parameters: for any damaged reply every split gives the same events, and no quoted call runs."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects.tagged import TAGGED
from fcshim.parse.stream import StreamParser
from fcshim.prompt.render import render_calls
from fcshim.testing.splits import random_split
from tests.examples import examples
from tests.parse.laws import Piece, check_reply, executable

TOOLS = [
    {"name": "f", "parameters": {"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}},
    {"name": "g", "parameters": {"type": "object", "properties": {"o": {"type": "object"}, "a": {"type": "array"}}}},
]
CALLS = [
    ("f", {"s": "one\ntwo </x> é", "n": 5}),
    ("g", {"o": {"k": [1, None, "x"]}, "a": ["y", {}]}),
    ("f", {}),
    ("g", {"a": []}),
]
each_dialect = pytest.mark.parametrize("dialect", TAGGED, ids=[row.name for row in TAGGED])


def _markers(dialect: Dialect) -> list[str]:
    """The markers of a dialect, each of which a model may drop, double or invent."""
    text = render_calls(dialect, [(name, json.dumps(arguments)) for name, arguments in CALLS])
    marks = sorted({mark for mark in _pieces(text) if mark.strip()})
    return [*marks, *dialect.openers(), "\n", " ", "<", "]", "<function=f>", "<think>", "`", "```\n", "{", "<![CDATA["]


def _pieces(text: str) -> list[str]:
    """Split the text before and after every tag."""
    return text.replace("<", "\x00<").replace(">", ">\x00").split("\x00")


@st.composite
def replies(draw: st.DrawFn, dialect: Dialect) -> str:
    """Calls and text, with damage."""
    chosen = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=3))
    calls = render_calls(dialect, [(name, json.dumps(arguments)) for name, arguments in chosen])
    pieces = [draw(st.sampled_from(["", "So:\n", "Look: "])), *_pieces(calls), draw(st.sampled_from(["", "\nDone."]))]
    marks = _markers(dialect)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(pieces) - 1))
        match draw(st.integers(0, 4)):
            case 0:
                pieces[at] = ""
            case 1:
                pieces[at] += pieces[at]
            case 2:
                pieces.insert(at, draw(st.sampled_from(marks)))
            case 3:
                pieces[at] = pieces[at][: draw(st.integers(0, len(pieces[at])))]
            case _:
                del pieces[at + 1 :]
    return "".join(pieces)


def _read(text: str, pieces: list[str], stop: Any, **settings: Any) -> list[Piece]:
    parser = StreamParser(**settings)
    events = [event for piece in pieces for event in parser.feed(piece)]
    finished = parser.finished
    return check_reply(text, stop, events + parser.close(stop), finished=finished)


@each_dialect
@examples(8)
@given(
    data=st.data(),
    stop=st.sampled_from(["complete", "max_tokens"]),
    tools=st.sampled_from([None, TOOLS, TOOLS[:1]]),
    arguments=st.sampled_from(["stream", "validated"]),
    seed=st.integers(0, 2**32),
)
def test_any_split_gives_the_same_events(
    dialect: Dialect, data: st.DataObject, stop: str, tools: Any, arguments: str, seed: int
) -> None:
    text = data.draw(replies(dialect))
    options = {"dialect": dialect, "tools": tools, "arguments": arguments}
    whole = _read(text, [text], stop, **options)

    assert whole == _read(text, list(text), stop, **options)
    assert whole == _read(text, [text[at : at + 4] for at in range(0, len(text), 4)], stop, **options)
    assert whole == _read(text, random_split(text, random.Random(seed)), stop, **options)


@each_dialect
@examples(5)
@given(data=st.data(), cut=st.integers(0, 400))
def test_a_call_that_is_cut_off_does_not_run(dialect: Dialect, data: st.DataObject, cut: int) -> None:
    text = render_calls(dialect, [("f", '{"s": "one", "n": 5}')])[: cut % 120]
    found = executable(_read(text, [text], "max_tokens", dialect=dialect, tools=TOOLS))

    assert not found or found[0]["arguments"] == '{"s": "one", "n": 5}'


@each_dialect
def test_a_call_quoted_in_a_value_does_not_run(dialect: Dialect) -> None:
    quoted = render_calls(dialect, [("f", '{"s": "one", "n": 5}')])
    text = render_calls(dialect, [("f", json.dumps({"s": f"Write {quoted} so."}))])
    (call,) = executable(_read(text, list(text), "complete", dialect=dialect, tools=TOOLS))

    assert {"s": f"Write {quoted} so."} == json.loads(call["arguments"])


@each_dialect
def test_a_quoted_call_to_an_unknown_tool_does_not_run(dialect: Dialect) -> None:
    quoted = render_calls(dialect, [("f", '{"s": "one", "n": 5}')])
    text = render_calls(dialect, [("write", json.dumps({"s": f"Write {quoted} so."}))])

    assert [{"text": text}, {"stop": "complete"}] == _read(text, [text], "complete", dialect=dialect, tools=TOOLS)
