"""Random tools, and random calls of them: what a model means to write.

Rule: the same random generator gives the same seed; names and values are of the kinds that tools of agents have.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from fcshim.events import JSON
from fcshim.messages import Tool

Call = tuple[str, dict[str, JSON]]
"""A tool's name and its arguments."""

_VERBS = ("get", "search", "write", "send", "list", "create", "update", "run", "find", "read")
_NOUNS = ("weather", "file", "mail", "ticket", "order", "page", "query", "event", "user_data", "report")
_KEYS = (
    "path",
    "content",
    "city",
    "query",
    "limit",
    "unit",
    "tags",
    "filters",
    "note",
    "price",
    "enabled",
    "since",
    "id",
)
_WORDS = ("Paris", "red", "two words", "naïve", "東京", "a/b.txt", "x", "2024-05-01", "don't", "50 %", "", " padded ")
_CODE = (
    'print("hi")',
    's = ",".join(parts)',
    'd["k"] = {"a": 1, "b": [2]}',
    'if x == "a" and y: return "b"',
    '<a href="x.html" class="b">go</a>',
    'echo "$HOME" | grep -c "x: y"',
    'SELECT "a", "b" FROM t WHERE c = "d"',
    'say "yes", then "no".',
    '{"k": "v"}',
    "it's {fine}, (really)",
    'a "_" # b',
    "for (i = 0; i < n; i++) { a[i] = '//'; }",
    "# heading\n- item\n\ttab \\ backslash",
    'x = ["a", "b"]\ny = """doc"""\n',
    'He said: "One", "two", and left.',
)


@dataclass(frozen=True, slots=True)
class Seed:
    """The offered tools and the calls that the model means."""

    tools: list[Tool]
    calls: list[Call]


def make_seed(rng: random.Random) -> Seed:
    """Make two to five tools and one or two calls of them."""
    names = rng.sample([f"{verb}_{noun}" for verb in _VERBS for noun in _NOUNS], rng.randint(2, 5))
    schemas = {name: _parameters(rng) for name in names}
    tools = [Tool(name, f"The tool {name}.", schema) for name, schema in schemas.items()]
    called = [rng.choice(names) for _ in range(rng.choice((1, 1, 2)))]
    return Seed(tools, [(name, _arguments(rng, schemas[name])) for name in called])


def _parameters(rng: random.Random) -> dict[str, JSON]:
    keys = rng.sample(_KEYS, rng.randint(1, 4))
    properties = {key: rng.choice(_KINDS)[0](rng) for key in keys}
    return {"type": "object", "properties": properties, "required": keys[: rng.randint(0, len(keys))]}


def _arguments(rng: random.Random, schema: dict[str, JSON]) -> dict[str, JSON]:
    return {
        key: _value(rng, typed)
        for key, typed in schema["properties"].items()
        if key in schema["required"] or rng.random() < 0.7
    }


def _value(rng: random.Random, schema: dict[str, JSON]) -> JSON:
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "properties" in schema:
        return {key: _value(rng, typed) for key, typed in schema["properties"].items() if rng.random() < 0.8}
    if schema.get("items", {}).get("type") in {"object", "array", "number"}:
        return [_value(rng, schema["items"]) for _ in range(rng.randint(0, 3))]
    if schema["type"] == ["string", "null"]:
        return rng.choice((None, _text(rng)))
    make = next(make for schema_of, make in _KINDS if schema_of(rng).get("type") == schema["type"])
    return make(rng)


def _text(rng: random.Random) -> str:
    if rng.random() < 0.4:
        return rng.choice(_WORDS)
    return "\n".join(rng.sample(_CODE, rng.randint(1, 3))) if rng.random() < 0.5 else rng.choice(_CODE)


def _object(rng: random.Random) -> dict[str, JSON]:
    return {key: rng.choice((_text(rng), 1, True, None, ["a"])) for key in rng.sample(("k", "deep", "min", "max"), 2)}


def _array(rng: random.Random) -> list[JSON]:
    return [_text(rng) for _ in range(rng.randint(0, 3))]


def _nested(rng: random.Random) -> dict[str, JSON]:
    """Make a schema whose values hold objects or arrays of a known form."""
    point = {"type": "object", "properties": {"zone": {"type": "string"}, "size": {"type": "number"}}}
    return rng.choice(
        (
            point,
            {"type": "object", "properties": {"at": point, "label": {"type": ["string", "null"]}}},
            {"type": "array", "items": point},
            {"type": "array", "items": {"type": "number"}},
            {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
        )
    )


_Kind = tuple[Callable[[random.Random], dict[str, JSON]], Callable[[random.Random], JSON]]
_KINDS: tuple[_Kind, ...] = (
    (lambda _: {"type": "string"}, _text),
    (lambda _: {"type": "string"}, _text),
    (lambda _: {"type": "string"}, _text),
    (lambda _: {"type": "integer"}, lambda rng: rng.choice((0, 3, -12, 1_000_000))),
    (lambda _: {"type": "number"}, lambda rng: rng.choice((0.5, -3.25, 1250.5, 2))),
    (lambda _: {"type": "boolean"}, lambda rng: rng.random() < 0.5),
    (lambda _: {"type": "array", "items": {"type": "string"}}, _array),
    (lambda _: {"type": "object"}, _object),
    (_nested, _object),
    (lambda _: {"enum": ["celsius", "fahrenheit", "open"]}, lambda _: "open"),
)
