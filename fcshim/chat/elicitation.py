"""Asks the user for the fields of a server's form, one by one.

Rule: nothing is sent to the server before the user has agreed to answer and every answer matches its schema. The
server's words are shown as a quotation; only a wrong field is asked for again.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from fcshim.errors import ToolError
from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.sanitize import visible
from fcshim.tools.arguments import read_arguments

if TYPE_CHECKING:
    from fcshim.mcp.server_requests import ElicitationForm

PromptLine: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Asks for one line; None means that the user wants to stop."""
Quote: TypeAlias = Callable[[str], None]
"""Shows text of a server as a quotation."""

_MAX_ATTEMPTS = 3
"""Answers to one field, so that a user who cannot match its schema is not asked forever."""
_BOOLEANS = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_FORMATS = {"email": "an e-mail address", "uri": "a URL", "date": "a date, 2026-12-31", "date-time": "a date and time"}


async def fill_form(form: "ElicitationForm", prompt: PromptLine, quote: Quote) -> Mapping[str, JSON] | None:
    """Ask for every field of a form; return None if the user declines or gives invalid answers too often."""
    quote(form.message)
    asker = f"the server {visible(form.server)} asks" if form.server else "a server asks"
    if await prompt(f"  {asker}; answer it? [y]es, [n]o: ") not in ("y", "yes"):
        return None
    values: dict[str, JSON] = {}
    properties = form.schema.get("properties")
    required = form.schema.get("required") or ()
    for name, value in (properties if isinstance(properties, dict) else {}).items():
        schema = value if isinstance(value, dict) else {}
        items = schema.get("items") if schema.get("type") == "array" else None
        listed = items if isinstance(items, dict) else schema
        field = _Field(name, schema, name in required, tuple(_choices(listed)), several=listed is items)
        answer = await _ask_field(field, prompt, quote)
        if answer is None:
            return None
        values |= answer
    return values


class _Choice(msgspec.Struct, frozen=True):
    value: JSON
    title: str


class _Field(msgspec.Struct, frozen=True):
    """One field: its schema, and the choices that the schema lists; `several`: a list of choices."""

    name: str
    schema: dict[str, JSON]
    required: bool
    choices: tuple[_Choice, ...]
    several: bool

    @property
    def default(self) -> JSON:
        """The value of an empty answer; UNSET if there is none."""
        return self.schema.get("default", msgspec.UNSET)

    def read(self, line: str) -> dict[str, JSON]:
        """Return the answer as an object with the field, or without it for none. Raises `ToolError`."""
        if not line and self.default is not msgspec.UNSET:
            return {self.name: self.default}
        if not line and self.required:
            raise ToolError(f"{self.name} is needed")
        if not line:
            return {}
        alone = {"type": "object", "properties": {self.name: self.schema}, "required": [self.name]}
        return dict(
            read_arguments(Tool(name="the answer", parameters=alone), json.dumps({self.name: self._value(line)}))
        )

    def _value(self, line: str) -> JSON:
        if self.several:
            return [self._choice(each.strip()) for each in line.split(",") if each.strip()]
        if self.choices:
            return self._choice(line)
        return _BOOLEANS.get(line.lower(), line) if self.schema.get("type") == "boolean" else line

    def _choice(self, word: str) -> JSON:
        """Return the choice with this value, title or number."""
        for choice in self.choices:
            if word.casefold() in (str(choice.value).casefold(), choice.title.casefold()):
                return choice.value
        if word.isdecimal() and 0 < int(word) <= len(self.choices):
            return self.choices[int(word) - 1].value
        raise ToolError(f"{self.name}: expected one of the choices, got {word}")


def _choices(schema: dict[str, JSON]) -> list[_Choice]:
    """Return the choices of a schema: `oneOf` or `anyOf` constants with titles, or `enum` with `enumNames`."""
    titled = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(titled, list) and all(isinstance(each, dict) and "const" in each for each in titled):
        return [_Choice(each["const"], str(each.get("title", each["const"]))) for each in titled]
    values = schema.get("enum")
    values = values if isinstance(values, list) else []
    names = schema.get("enumNames")
    titles = names if isinstance(names, list) and len(names) == len(values) else values
    return [_Choice(value, str(title)) for value, title in zip(values, titles, strict=True)]


async def _ask_field(field: _Field, prompt: PromptLine, quote: Quote) -> dict[str, JSON] | None:
    about = [str(field.schema[key]) for key in ("title", "description") if field.schema.get(key)]
    about += [f"{number}  {choice.title}" for number, choice in enumerate(field.choices, 1)]
    if about:
        quote("\n".join(about))
    for _ in range(_MAX_ATTEMPTS):
        line = await prompt(f"  {visible(field.name)} ({_hint(field)}): ")
        if line is None:
            return None
        try:
            return field.read(line)
        except ToolError as error:
            quote(error.message)
    quote(f"no valid answer in {_MAX_ATTEMPTS} attempts; the server gets the answer that you declined")
    return None


def _hint(field: _Field) -> str:
    if field.several:
        kind = "numbers or names, with commas between them"
    elif field.choices:
        kind = "a number or a name"
    elif field.schema.get("type") == "boolean":
        kind = "yes or no"
    else:
        kind = _FORMATS.get(str(field.schema.get("format")), visible(str(field.schema.get("type", "text"))))
    if field.default is not msgspec.UNSET:
        return f"{kind}; default: {visible(json.dumps(field.default, ensure_ascii=False))}"
    return kind if field.required else f"{kind}; may be left empty"
