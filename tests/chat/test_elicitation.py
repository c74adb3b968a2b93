"""A server's form, asked field by field."""

import pytest

from fcshim.chat.elicitation import fill_form
from fcshim.mcp.server_requests import ElicitationForm

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "your name"},
        "age": {"type": "integer"},
        "size": {"enum": ["S", "L"]},
    },
    "required": ["name"],
}
FORM = ElicitationForm("Who\nare you?", SCHEMA)


class ScriptedPrompt:
    """Answers prompts with a test's lines, and records the prompts."""

    def __init__(self, *lines):
        self._lines = iter(lines)
        self.asked = []

    async def __call__(self, text):
        self.asked.append(text)
        return next(self._lines)


async def test_values_are_converted_to_the_types_of_the_schema():
    person = ScriptedPrompt("y", "Ada", "36", "L")

    assert {"name": "Ada", "age": 36, "size": "L"} == await fill_form(FORM, person)
    assert [
        "  a server asks: Who are you?\n  answer it? [y]es, [n]o: ",
        "  name (your name; string): ",
        "  age (integer): ",
        "  size (S | L): ",
    ] == person.asked


async def test_empty_fields_are_not_sent():
    assert {"name": "Ada"} == await fill_form(FORM, ScriptedPrompt("yes", "Ada", "", ""))


async def test_invalid_answers_are_reported_and_asked_for_again():
    person = ScriptedPrompt("y", "Ada", "old", "M", "Ada", "36", "L")

    assert {"name": "Ada", "age": 36, "size": "L"} == await fill_form(FORM, person)
    assert "age: expected integer, got string" in person.asked[4]
    assert 'size: expected one of "S", "L", got "M"' in person.asked[4]


@pytest.mark.parametrize("lines", [("n",), ("",), (None,), ("y", None), ("y", *["", "", ""] * 3)])
async def test_the_user_may_decline(lines):
    assert await fill_form(FORM, ScriptedPrompt(*lines)) is None


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"type": "object", "properties": {}}])
async def test_a_form_without_fields_gets_an_empty_answer(schema):
    assert {} == await fill_form(ElicitationForm("Go on?", schema), ScriptedPrompt("y"))
