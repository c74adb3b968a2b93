"""A tool as the signature of a function, with its parameters described: a shorter listing than JSON Schema.

Types are TypeScript's, which models have read much of: `function getTime(offset_ms: number): any`, then the description
and a line for each parameter. What a type cannot say (defaults, limits, formats) stands in that line.

Rule: bounded whatever the schema is; a description stays inside its place, so that it cannot pass for a further line.
Neighbours: `render` gives it to the templates in place of the schema.
"""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Literal
from urllib.parse import unquote

from fcshim.events import JSON

ToolsStyle = Literal["schema", "signature"]
"""How tools are listed in a prompt."""

_NAME = re.compile(r"[^\W\d]\w*")
_PLAIN = re.compile(r"[\w.:/-]+")
_TYPES = {
    "string": "string",
    "number": "number",
    "integer": "number",
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
"""Keywords that a type cannot say, and how they are put."""
_MAX_PARTS = 1_000
"""Schemas written out for one tool: references that double at each step would never end."""
_MAX_DEPTH = 16
_MAX_OUTLINED = 8
_MAX_OUTLINED_NAME = 60
"""Parameters, and characters of one, that an outline names."""


def signature(name: str, description: str, parameters: JSON) -> str:
    """Write a tool's signature, what it does, and what its parameters mean."""
    types = _TypeWriter(parameters)
    members = list(_members(parameters))
    arguments = ", ".join(
        f"{_key(key)}{'' if required else '?'}: {types.type_of(schema)}" for key, schema, required in members
    )
    lines = [f"function {name}({arguments}): any"]
    if description:
        lines.append("Description: " + _indented(description))
    described = [f"- {_key(key)}{remark}" for key, schema, _ in members if (remark := types.description_of(schema))]
    return "\n".join([*lines, *(["Parameters:"] if described else []), *described])


def outline(name: str, parameters: JSON) -> str:
    """Write a tool's name with those of its parameters: `send(to, subject?)`; `...` for what would be too much."""
    members = list(itertools.islice(_members(parameters), _MAX_OUTLINED + 1))
    names = [f"{_key(key)}{'' if required else '?'}" for key, _, required in members if len(key) <= _MAX_OUTLINED_NAME]
    whole = len(names) <= _MAX_OUTLINED and len(names) == len(members)
    shown = name if _PLAIN.fullmatch(name) else _json_text(name)
    return f"{shown}({', '.join([*names[:_MAX_OUTLINED], *([] if whole else ['...'])])})"


class _TypeWriter:
    """Writes schemas of one tool as types."""

    def __init__(self, root: JSON) -> None:
        self._root = root
        self._parts_left = _MAX_PARTS
        self._open_references: list[JSON] = []
        """References that are being written out."""

    def type_of(self, schema: JSON, depth: int = 0) -> str:
        """Give the type that a schema comes to; `any` where that is not known, or would take too long."""
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
        return _TYPES.get(kind, "any")

    def _array(self, schema: dict[str, JSON], depth: int) -> str:
        first = schema.get("prefixItems")
        if isinstance(first, list):
            return "[" + ", ".join(self.type_of(item, depth + 1) for item in first) + "]"
        item = self.type_of(schema.get("items"), depth + 1)
        return f"({item})[]" if " " in item and item[0] != "{" else f"{item}[]"

    def _object(self, schema: dict[str, JSON], depth: int) -> str:
        members = [
            f"{_key(key)}{'' if required else '?'}: {self.type_of(member, depth + 1)}"
            f"{_comment(self.description_of(member))}"
            for key, member, required in _members(schema)
        ]
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            members.append(f"[key: string]: {self.type_of(others, depth + 1)}")
        return "{ " + "; ".join(members) + " }" if members else "object"

    def description_of(self, schema: JSON) -> str:
        """Give what is said of a parameter beyond its type, on one line: ` (integer, default 5): how many`."""
        if not isinstance(schema, dict):
            return ""
        notes = ["integer"] if schema.get("type") == "integer" else []
        notes += [f"{word} {_json_text(schema[keyword])}" for keyword, word in _LIMITS.items() if keyword in schema]
        description = schema.get("description")
        text = f": {' '.join(description.split())}" if isinstance(description, str) and description.strip() else ""
        return (f" ({', '.join(notes)})" if notes else "") + text


def _members(schema: JSON) -> Iterator[tuple[str, JSON, bool]]:
    """Give an object's members: name, schema, and whether it is required."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    required = schema.get("required") if isinstance(schema, dict) else None
    if isinstance(properties, dict):
        for key, member in properties.items():
            yield key, member, isinstance(required, list) and key in required


def _resolve(root: JSON, reference: JSON) -> JSON:
    """Give the part of the schema that a local reference means."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found = root
    for step in reference[1:].split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _key(name: str) -> str:
    return name if _NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _json_text(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


def _comment(text: str) -> str:
    return f" /*{text.replace('*/', '* /').removeprefix(':')} */" if text else ""


def _indented(text: str) -> str:
    """Keep a description's lines in their place."""
    return "\n  ".join(text.strip().splitlines())
