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
FORM = ElicitationForm("Who\nare you?", SCHEMA, "shop")


class ScriptedPrompt:
    """Answers prompts with a test's lines, and records the prompts and the server's words."""

    def __init__(self, *lines):
        self._lines = iter(lines)
        self.asked = []
        self.quoted = []

    async def __call__(self, text):
        self.asked.append(text)
        return next(self._lines)


def one_field(required=(), **schema):
    return ElicitationForm("?", {"type": "object", "properties": {"it": schema}, "required": list(required)}, "shop")


async def fill(form, person):
    return await fill_form(form, person, person.quoted.append)


async def test_values_are_converted_to_the_types_of_the_schema():
    person = ScriptedPrompt("y", "Ada", "36", "L")

    assert {"name": "Ada", "age": 36, "size": "L"} == await fill(FORM, person)
    assert [
        "  the server shop asks; answer it? [y]es, [n]o: ",
        "  name (string): ",
        "  age (integer; may be left empty): ",
        "  size (a number or a name; may be left empty): ",
    ] == person.asked
    assert ["Who\nare you?", "your name", "1  S\n2  L"] == person.quoted


async def test_empty_fields_are_not_sent():
    assert {"name": "Ada"} == await fill(FORM, ScriptedPrompt("yes", "Ada", "", ""))


async def test_only_the_wrong_field_is_asked_for_again():
    person = ScriptedPrompt("y", "Ada", "old", "36", "M", "L")

    assert {"name": "Ada", "age": 36, "size": "L"} == await fill(FORM, person)
    assert 6 == len(person.asked)
    assert "age: expected integer, got string" in person.quoted[2]
    assert "size: expected one of the choices, got M" in person.quoted[4]


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({"type": "boolean"}, "yes", True),
        ({"type": "boolean"}, "N", False),
        ({"type": "boolean", "default": True}, "", True),
        ({"type": "string", "default": "x"}, "", "x"),
        ({"type": "string"}, "yes", "yes"),
        ({"type": "number", "minimum": 1}, "1.5", 1.5),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["First", "Second"]}, "second", "b"),
        ({"type": "string", "enum": ["2", "1"]}, "1", "1"),
        ({"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}, "2", "g"),
        ({"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}, "RED", "r"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}, "1, c", ["a", "c"]),
        ({"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}]}}, "red", ["r"]),
    ],
)
async def test_a_field_of_each_kind_is_answered_in_words(schema, typed, value):
    assert {"it": value} == await fill(one_field(**schema), ScriptedPrompt("y", typed))


@pytest.mark.parametrize(
    ("schema", "wrong", "right"),
    [
        ({"type": "boolean"}, "perhaps", "no"),
        ({"type": "integer", "minimum": 3}, "2", "3"),
        ({"type": "string", "minLength": 3}, "ab", "abc"),
        ({"type": "array", "items": {"enum": ["a"]}}, "b", "a"),
        ({"type": "string"}, "", "now"),
    ],
)
async def test_a_wrong_answer_to_a_needed_field_is_refused_with_its_reason(schema, wrong, right):
    person = ScriptedPrompt("y", wrong, right)

    assert "it" in await fill(one_field(required=["it"], **schema), person)
    assert "it" in person.quoted[-1]


async def test_what_a_server_says_of_a_field_is_quoted_and_its_name_has_no_control_characters():
    form = ElicitationForm("?", {"properties": {"a\x1b[2J": {"type": "string", "description": "run it? [y]es"}}}, "s")
    person = ScriptedPrompt("y", "x")
    await fill(form, person)

    assert "run it? [y]es" in person.quoted
    assert "  a<U+001B>[2J (string; may be left empty): " == person.asked[1]


@pytest.mark.parametrize("lines", [("n",), ("",), (None,), ("y", None), ("y", "", "", "")])
async def test_the_user_may_decline(lines):
    assert await fill(FORM, ScriptedPrompt(*lines)) is None


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"type": "object", "properties": {}}])
async def test_a_form_without_fields_gets_an_empty_answer(schema):
    assert {} == await fill(ElicitationForm("Go on?", schema, "s"), ScriptedPrompt("y"))
