"""A tool as a signature with described parameters, or as a compact list of them: shorter than JSON Schema.

Types are TypeScript's, which models know well: `function getTime(offset_ms: number): number`, then the description and
a line for each parameter, with what a type cannot express (defaults, limits, formats). The compact form has each
parameter once: `getTime: Returns the time.`, then `- offset_ms: integer, default 0. Milliseconds to add`.

Rule: the work is bounded for any schema. A description stays on its line or indented, so that it cannot be read as
another line of the prompt.
"""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Literal
from urllib.parse import unquote

from fcshim.events import JSON

ToolsStyle = Literal["schema", "signature", "compact"]
"""How tools are listed in a prompt, from the longest to the shortest."""

_NAME = re.compile(r"[^\W\d]\w*")
_PLAIN = re.compile(r"[\w.:/-]+")
_TYPES = {
    "string": "string",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "object",
    "array": "any[]",
}
_LIMITS = {
    "default": "default",
    "format": "format",
    "pattern": "pattern",
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
    "minLength": "characters at least",
    "maxLength": "characters at most",
    "minItems": "items at least",
    "maxItems": "items at most",
}
"""Keywords that a type cannot express, with their wording."""
_MAX_PARTS = 1_000
"""Schemas written out for one tool: references that double at each level would be exponential."""
_MAX_DEPTH = 16
_MAX_RESULT_TYPE = 400
"""Characters of a result's type: it helps to choose a tool, not to call it, and costs room in each prompt."""
_MAX_OUTLINED = 8
_MAX_OUTLINED_NAME = 60
"""The number of parameters that an outline lists, and the longest name among them."""


def signature(name: str, description: str, parameters: JSON, returns: JSON = None) -> str:
    """Write a tool's signature, its description, and the descriptions of its parameters.

    `returns` is the schema of its result; without one, and for one that is too long to read, the type is `any`.
    """
    types = _TypeWriter(parameters)
    members = list(_members(parameters))
    arguments = ", ".join(
        f"{_key(key)}{'' if required else '?'}: {types.type_of(schema)}" for key, schema, required in members
    )
    lines = [f"function {name}({arguments}): {_result_type(_TypeWriter(returns), returns)}"]
    if description:
        lines.append("Description: " + _indented(description))
    described = [f"- {_key(key)}{text}" for key, schema, _ in members if (text := types.description_of(schema))]
    return "\n".join([*lines, *(["Parameters:"] if described else []), *described])


def compact(name: str, description: str, parameters: JSON, returns: JSON = None) -> str:
    """Write a tool's name and description, and a line for each parameter: its type, its limits, its description.

    Shorter than `signature`, which has each parameter's name twice. `returns` is the schema of its result.
    """
    types = _TypeWriter(parameters, integer="integer")
    text = _indented(description)
    lines = [f"{_plain_name(name)}{': ' if text else ''}{text}"]
    for key, schema, required in _members(parameters):
        parts = ", ".join([types.type_of(schema), *types.notes_of(schema)])
        about = types.text_of(schema)
        lines.append(f"- {_key(key)}{'' if required else '?'}: {parts}{'. ' if about else ''}{about}")
    if returns is not None:
        lines.append(f"returns {_result_type(_TypeWriter(returns, integer='integer'), returns)}")
    return "\n".join(lines)


def outline(name: str, parameters: JSON) -> str:
    """Write a tool's name and parameter names, as in `send(to, subject?)`, with `...` for names left out."""
    members = list(itertools.islice(_members(parameters), _MAX_OUTLINED + 1))
    names = [f"{_key(key)}{'' if required else '?'}" for key, _, required in members if len(key) <= _MAX_OUTLINED_NAME]
    is_complete = len(names) <= _MAX_OUTLINED and len(names) == len(members)
    return f"{_plain_name(name)}({', '.join([*names[:_MAX_OUTLINED], *([] if is_complete else ['...'])])})"


class _TypeWriter:
    """Writes the schemas of one tool as TypeScript types."""

    def __init__(self, root: JSON, integer: str = "number") -> None:
        self._root = root
        self._integer = integer
        self._parts_left = _MAX_PARTS
        self._open_references: list[JSON] = []
        """The references being expanded, to stop at recursion."""

    def type_of(self, schema: JSON, depth: int = 0) -> str:
        """Return the type of a schema; `any` if it is unknown or too large."""
        self._parts_left -= 1
        if not isinstance(schema, dict) or self._parts_left < 0 or depth > _MAX_DEPTH:
            return "any"
        if "$ref" in schema:
            return self._reference(schema["$ref"], depth)
        if "const" in schema or isinstance(schema.get("enum"), list):
            values = [schema["const"]] if "const" in schema else schema["enum"]
            return " | ".join(json.dumps(value, ensure_ascii=False) for value in values) or "any"
        for keyword, sign in (("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")):
            parts = schema.get(keyword)
            if isinstance(parts, list) and parts:
                return sign.join(dict.fromkeys(self.type_of(part, depth + 1) for part in parts))
        return self._plain(schema, depth)

    def _reference(self, reference: JSON, depth: int) -> str:
        if reference in self._open_references:
            return "object"
        self._open_references.append(reference)
        found = self.type_of(_resolve(self._root, reference), depth + 1)
        self._open_references.pop()
        return found

    def _plain(self, schema: dict[str, JSON], depth: int) -> str:
        kinds = schema.get("type")
        names = kinds if isinstance(kinds, list) else [kinds]
        found = [self._kind(schema, str(kind), depth) for kind in names]
        if schema.get("nullable") is True:
            found.append("null")
        return " | ".join(dict.fromkeys(found))

    def _kind(self, schema: dict[str, JSON], kind: str, depth: int) -> str:
        if kind == "array" or (kind == "None" and "items" in schema):
            return self._array(schema, depth)
        if kind == "object" or (kind == "None" and "properties" in schema):
            return self._object(schema, depth)
        return self._integer if kind == "integer" else _TYPES.get(kind, "any")

    def _array(self, schema: dict[str, JSON], depth: int) -> str:
        first = schema.get("prefixItems")
        if isinstance(first, list):
            return "[" + ", ".join(self.type_of(item, depth + 1) for item in first) + "]"
        item = self.type_of(schema.get("items"), depth + 1)
        return f"({item})[]" if " " in item and item[0] != "{" else f"{item}[]"

    def _object(self, schema: dict[str, JSON], depth: int) -> str:
        members: list[str] = []
        for key, member, required in _members(schema):
            text = self.description_of(member).replace("*/", "* /")
            comment = f" /*{text.removeprefix(':')} */" if text else ""
            members.append(f"{_key(key)}{'' if required else '?'}: {self.type_of(member, depth + 1)}{comment}")
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            members.append(f"[key: string]: {self.type_of(others, depth + 1)}")
        return "{ " + "; ".join(members) + " }" if members else "object"

    def description_of(self, schema: JSON) -> str:
        """Return the rest of a parameter's schema on one line: ` (integer, default 5): how many`."""
        notes, text = self.notes_of(schema), self.text_of(schema)
        return (f" ({', '.join(notes)})" if notes else "") + (f": {text}" if text else "")

    def notes_of(self, schema: JSON) -> list[str]:
        """Return what a type cannot express: `default 5`, and `integer` where its type is `number`."""
        if not isinstance(schema, dict):
            return []
        notes = ["integer"] if schema.get("type") == "integer" != self._integer else []
        return notes + [
            f"{word} {_json_text(schema[keyword])}" for keyword, word in _LIMITS.items() if keyword in schema
        ]

    def text_of(self, schema: JSON) -> str:
        """Return the description of a parameter on one line."""
        text = schema.get("description") if isinstance(schema, dict) else None
        return " ".join(text.split()) if isinstance(text, str) else ""


def _members(schema: JSON) -> Iterator[tuple[str, JSON, bool]]:
    """Yield the name and schema of each member, and whether it is required."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    required = schema.get("required") if isinstance(schema, dict) else None
    if isinstance(properties, dict):
        for key, member in properties.items():
            yield key, member, isinstance(required, list) and key in required


def _resolve(root: JSON, reference: JSON) -> JSON:
    """Return the target of a local reference, None without one."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found = root
    for step in reference[1:].split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _result_type(types: _TypeWriter, returns: JSON) -> str:
    """Return the type of a result; `any` if it is too long to read."""
    result = types.type_of(returns)
    return result if len(result) <= _MAX_RESULT_TYPE else "any"


def _plain_name(name: str) -> str:
    """Return a tool's name, quoted where it could be read as more than a name."""
    return name if _PLAIN.fullmatch(name) else _json_text(name)


def _key(name: str) -> str:
    return name if _NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _json_text(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


def _indented(text: str) -> str:
    """Indent the further lines of a description."""
    return "\n  ".join(text.strip().splitlines())
