"""Arguments in notations other than JSON; the templates use these functions as filters.

Rule: the dialect's parser reads every written text back as the same value.
"""

import json
import re

from fcshim.events import JSON

_NAME = re.compile(r"[^\W\d]\w*")
_KEY = re.compile(r"[^\W\d][\w.-]*")


def python_literal(value: JSON) -> str:
    """Write a value as a Python literal."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case dict():
            return (
                "{" + ", ".join(f"{python_literal(key)}: {python_literal(item)}" for key, item in value.items()) + "}"
            )
        case list():
            return "[" + ", ".join(map(python_literal, value)) + "]"
        case _:
            return repr(value)


def python_arguments(text: str) -> str:
    """Write a JSON object as the arguments of a Python call; `**{"a b": 1}` for a name that is not an identifier."""
    arguments: dict[str, JSON] = json.loads(text)
    return ", ".join(
        f"{name}={python_literal(value)}"
        if _NAME.fullmatch(name)
        else f"**{{{python_literal(name)}: {python_literal(value)}}}"
        for name, value in arguments.items()
    )


def gemma_literal(value: JSON, quote: str) -> str:
    """Write a value in Gemma's notation: strings between `quote` tokens, identifiers as keys without quotes."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False) if quote in value else f"{quote}{value}{quote}"
        case dict():
            members = (
                f"{key if _KEY.fullmatch(key) else gemma_literal(key, quote)}:{gemma_literal(item, quote)}"
                for key, item in value.items()
            )
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(gemma_literal(item, quote) for item in value) + "]"
        case _:
            return json.dumps(value)


def gemma_schema(schema: JSON) -> JSON:
    """Return a JSON Schema with type names in upper case, as in Gemma's templates."""
    if isinstance(schema, list):
        return [gemma_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _gemma_keyword(key, value) for key, value in schema.items()}


def _gemma_keyword(key: str, value: JSON) -> JSON:
    match key, value:
        case "type", str():
            return value.upper()
        case "type", list():
            return [name.upper() if isinstance(name, str) else name for name in value]
        case "properties" | "$defs" | "definitions", dict():
            return {name: gemma_schema(item) for name, item in value.items()}
        case "items" | "additionalProperties" | "anyOf" | "oneOf" | "allOf" | "prefixItems", _:
            return gemma_schema(value)
        case _:
            return value
