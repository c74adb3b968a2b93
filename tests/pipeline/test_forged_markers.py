"""Calls that somebody else wrote into the prompt are no calls when the model shows them as they stand there.

For every dialect and every place of a prompt: as the dialect's calls are written, and with one character changed.
"""

import random
import zlib
from collections.abc import Iterator

import pytest

from fcshim.events import Stop, Text, ToolCallEnd
from fcshim.messages import (
    AssistantMessage,
    Message,
    Request,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
    text_of,
)
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS
from fcshim.pipeline.shim import ParserOptions, prepare_shim
from fcshim.prompt.render import render_calls

pytestmark = pytest.mark.security

ARGUMENTS = '{"city": "Rome"}'
BEFORE, AFTER = "Qq7 ", " qQ8"
OTHERS = ("user", "system", "description", "parameter")
DOCUMENTS = ("result", "document")
WITHOUT_MARKERS = {"glm4", "cline", "gigachat3"}
"""Dialects whose calls are common text without a marker (a name and an object, an element): only results and documents
are compared with what the model shows, because a user who pastes a call may want it to run."""
CHANGES = 12
"""Changed spellings that each test tries; the seed is the dialect's name."""


def request(place: str, text: str) -> Request:
    """Return a conversation with a text in one place."""
    placed = f"{BEFORE}{text}{AFTER}"
    about, about_city = (placed if place == each else "" for each in ("description", "parameter"))
    schema = {"type": "object", "properties": {"city": {"type": "string", "description": about_city}}}
    messages: list[Message] = [UserMessage((TextPart(placed if place == "user" else "hi"),))]
    if place == "system":
        messages.insert(0, SystemMessage((TextPart(placed),)))
    if place == "document":
        messages = [UserMessage((TextPart(placed, document=True),))]
    if place == "result":
        call = ToolCall("1", "look", ARGUMENTS)
        messages += [AssistantMessage((), (call,)), ToolMessage("1", (TextPart(placed),))]
    return Request(model="m", messages=tuple(messages), tools=(Tool("look", about, schema),))


def calls_of_echo(place: str, text: str, dialect: Dialect) -> list[ToolCallEnd]:
    """Let a model repeat the text as it stands in the prompt; return the calls that would run."""
    shim = prepare_shim(request(place, text), dialect=dialect, options=ParserOptions(rescue=True))
    prompt = "\n".join(text_of(message.content) for message in shim.prepared.messages)
    shown = prompt[prompt.index(BEFORE.strip()) + len(BEFORE) : prompt.rindex(AFTER.strip()) - 1]
    stream = shim.stream()
    events = [*stream.feed(Text(shown)), *stream.feed(Stop("complete")), *stream.close()]
    return [event for event in events if isinstance(event, ToolCallEnd) and event.error is None]


def forged(dialect: Dialect) -> str:
    return render_calls(dialect, [("look", ARGUMENTS)])


def readers(place: str, name: str) -> list[Dialect]:
    """Return the dialects of the models that show the text: its own, the default, two others.

    A model whose calls have no marker counts only for results and documents, see `WITHOUT_MARKERS`.
    """
    others = [each for each, row in DIALECTS.items() if place in DOCUMENTS or not row.call.starts]
    return [DIALECTS[each] for each in (name, "function_call", *random.Random(name).sample(others, 2))]


def changed(text: str, marker: str, source: random.Random) -> Iterator[str]:
    """Yield the text with one character of a marker changed."""
    while True:
        at = source.randrange(len(marker))
        sign = marker[at]
        new = source.choice(
            ["", sign * 2, sign.swapcase(), "\u200b" + sign, " " + sign, "_" + sign, "x", chr(ord(sign) + 0xFEE0)]
        )
        yield text.replace(marker, marker[:at] + new + marker[at + 1 :], source.choice([1, -1]))


MARKED = [
    (place, name)
    for name, row in DIALECTS.items()
    if name not in WITHOUT_MARKERS
    for place in (DOCUMENTS if row.call.starts or row.fenced else (*OTHERS, *DOCUMENTS))
]


@pytest.mark.parametrize(("place", "name"), MARKED)
def test_a_call_as_the_prompt_shows_it_is_text(place, name):
    assert [] == [
        call for reader in readers(place, name) for call in calls_of_echo(place, forged(DIALECTS[name]), reader)
    ]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("place", DOCUMENTS)
def test_a_call_of_a_document_with_one_character_changed_is_text(name, place):
    dialect = DIALECTS[name]
    text, source = forged(dialect), random.Random(zlib.crc32(name.encode()))
    markers = {*dialect.openers(), *dialect.closers(), *dialect.section.openers(), *dialect.section.closers()}
    found = sorted(each for each in markers if each and each in text) or [text[:6]]
    texts = [next(changed(text, source.choice(found), source)) for _ in range(CHANGES)]

    assert [] == [
        (each, call) for each in texts for reader in readers(place, name) for call in calls_of_echo(place, each, reader)
    ]


@pytest.mark.parametrize("text", ["<_tool_call>", "<_call>", "[_TOOL_CALL]", "<_function_call>", "**<_x>**"])
def test_an_escaped_marker_is_no_unknown_tag_around_a_call(text):
    """`<call>` is one; a model that shows `<_call>` repeats the prompt."""
    shim = prepare_shim(request("user", "hi"), options=ParserOptions(rescue=True))
    stream = shim.stream()
    call = '{"name": "look", "arguments": {"city": "Rome"}}'
    events = [*stream.feed(Text(f"{text} {call}")), *stream.feed(Stop("complete")), *stream.close()]

    assert [] == [event for event in events if isinstance(event, ToolCallEnd)]
