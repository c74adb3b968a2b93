"""Text of users and tools has no marker in the prompt, and a model that repeats it makes no call.

Tested for every dialect with its own markers, its rendered calls and results, and fragments of them.
"""

import functools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.events import Stop, Text
from fcshim.messages import AssistantMessage, Request, TextPart, Tool, ToolCall, ToolMessage, UserMessage, text_of
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS
from fcshim.pipeline.shim import prepare_shim
from fcshim.prompt.escape import escaper_for
from fcshim.prompt.render import render_calls, render_result
from tests.examples import examples

TOOLS = (Tool("look", "", {"type": "object", "properties": {"city": {"type": "string"}}}),)
ARGUMENTS = '{"city": "Rome"}'


def marked(dialect: Dialect) -> set[str]:
    """Return the markers of a dialect."""
    own = (*dialect.openers(), *dialect.closers(), *dialect.section.openers(), *dialect.turn.tokens)
    return {*own, dialect.result.open, dialect.result.close} - {""}


def is_common(dialect: Dialect, marker: str) -> bool:
    """Return whether a marker is left as it is where no call follows: fences, words, and the `>>>` of doctests."""
    return escaper_for(dialect).escape(f"{marker} x") == f"{marker} x"


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_only_words_and_fences_are_left_where_no_call_follows(dialect: Dialect) -> None:
    """Whether a call may follow them is tested in `test_plain_markers`."""
    common = [marker for marker in marked(dialect) if is_common(dialect, marker)]

    assert [] == [marker for marker in common if not re.fullmatch(r"```(json|python)?|[\w\s*:=]+|>>>", marker)]


@functools.cache
def pieces(dialect: Dialect) -> st.SearchStrategy[str]:
    """Return the fragments of texts; they include whole calls if calls of the dialect need a marker."""
    made = [*sorted(marked(dialect)), render_result(dialect, "look", "fine"), " ", "\n", "x", "look", "{", ARGUMENTS]
    if "{}" in dialect.call.names:  # a tool's name on a line, and an object on the next: common text
        made = [piece for piece in made if piece not in {"look", "\n", ARGUMENTS}]
    elif not dialect.call.starts and not dialect.fenced:
        one, two = render_calls(dialect, [("look", ARGUMENTS)]), render_calls(dialect, [("look", ARGUMENTS)] * 2)
        made += [one, two, one.strip(), *one.splitlines(keepends=True)]
    return st.sampled_from(made)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@given(data=st.data())
def test_an_echoed_marker_is_no_call_and_is_unescaped(dialect: Dialect, data: st.DataObject) -> None:
    text = data.draw(st.lists(pieces(dialect), min_size=1, max_size=8).map("".join))
    shim = prepare_shim(Request(model="m", messages=(UserMessage((TextPart(text),)),), tools=TOOLS), dialect=dialect)
    stream = shim.stream()
    events = [*stream.feed(Text(escaper_for(dialect.for_tools(["look"])).escape(text))), *stream.close()]

    assert "".join(event.text for event in events if isinstance(event, Text)) == text
    assert [event for event in events if not isinstance(event, Text)] == [Stop("complete")]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@examples(5)
@given(data=st.data())
def test_the_prompt_contains_no_unescaped_marker(dialect: Dialect, data: st.DataObject) -> None:
    said, found = ("x" + "".join(data.draw(st.lists(pieces(dialect), max_size=8))) for _ in range(2))

    assert counted(dialect, said, found) == counted(dialect, "x", "x")


def counted(dialect: Dialect, said: str, found: str) -> dict[str, int]:
    """Count each marker in the prompt of a conversation with these two texts."""
    messages = (
        UserMessage((TextPart(said),)),
        AssistantMessage((), (ToolCall("1", "look", ARGUMENTS),)),
        ToolMessage("1", (TextPart(found),)),
    )
    prepared = prepare_shim(Request(model="m", messages=messages, tools=TOOLS), dialect=dialect).prepared
    prompt = "\0".join(text_of(message.content) for message in prepared.messages)
    return {marker: prompt.count(marker) for marker in marked(dialect) if not is_common(dialect, marker)}
