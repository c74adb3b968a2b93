"""Replies with calls in any dialect of the table, rendered by its own templates, from random tools and arguments.

Rule: the seed determines everything; a reply that the dialect cannot express exactly (a string that contains its own
end tag) has no expected events.
"""

import json
import random
from typing import Any

from fcshim.parse.dialects import DIALECTS, Dialect
from fcshim.prompt.render import render_calls
from tests.fuzz.documents import JUNK, MUTATIONS, NASTY, Document, noise, random_options
from tests.parse.laws import Piece

NAMES = ("f", "get_weather", "write_file", "search", "add2")
KEYS = ("city", "n", "on", "items", "path", "x", "query", "units")
PLAIN = ("Paris", "two words", "naïve", "東京", "🙂", "a < b", "it is 5 o'clock", "x = {1: [2]}", "a,b;c", "", "#1")
LOOKALIKES = ("12", "true", "null", "[1]")
AMBIGUOUS_EMPTY_LISTS = {"minimax_m3"}
"""Dialects that write untyped values as nested elements, so that an empty list looks like an empty string."""
TYPES = ("string", "string", "string", "integer", "number", "boolean", "array", "object")


def make(seed: int, source: random.Random) -> Document:
    """Create a document; half of them are mutated."""
    row = DIALECTS[source.choice(list(DIALECTS))]
    document = _Writer(seed, source, row).write()
    if source.random() < 0.5:
        document.events = None
        random_options(document, source)
        document.options["dialect"] = row.name
        for _ in range(source.randint(1, 4)):
            _mutate(document, row, source)
    _choose_reader(document, row, source)
    return document


def _choose_reader(document: Document, row: Dialect, source: random.Random) -> None:
    """Parse the document with its own dialect, with `rescue` from another one, or with `auto`."""
    way = source.random()
    if way < 0.2:
        document.options["dialect"] = "auto"
    elif way < 0.4:
        document.options["dialect"] = source.choice(list(DIALECTS))
        document.options["rescue"] = True
    if way < 0.4 and (row.bare or row.turn.tokens):
        document.events = None  # a bare call must not precede text, and other dialects do not drop this markup


class _Writer:
    """Writes one reply with its expected events."""

    def __init__(self, seed: int, source: random.Random, row: Dialect) -> None:
        self._source = source
        self._row = row
        names = source.sample(NAMES, source.randint(1, len(NAMES)))
        self._schemas = {name: _schema(source) for name in names}
        tools = [{"type": "function", "function": {"name": n, "parameters": s}} for n, s in self._schemas.items()]
        self._document = Document(seed, tools=tools, options={"dialect": row.name})

    def write(self) -> Document:
        source, document = self._source, self._document
        nasty = source.random() < 0.2
        calls = [self._call(nasty=nasty) for _ in range(source.choice((1, 1, 2, 3)))]
        before = source.choice(("", f"{noise(source).strip()}\n\n"))
        said = noise(source).strip()
        # What begins so may belong to the call, or be an invented result.
        said = f"so {said}" if said.lstrip("}]' ").startswith(("\\", "{")) or said.startswith("' }") else said
        after = source.choice(("", "", f"\n\n{said}."))
        written = render_calls(self._row, [(name, json.dumps(value, ensure_ascii=False)) for name, value in calls])
        document.text = before + written + after
        pieces: list[Piece] = [{"call": name, "value": value, "coerced": [], "error": None} for name, value in calls]
        document.events = [*_text(before), *pieces, *_text(after), {"stop": "tool_use"}]
        document.loose = True
        nested = any(isinstance(inner, list | dict) for _, value in calls for inner in value.values())
        if nasty or (nested and self._row.name in AMBIGUOUS_EMPTY_LISTS):
            document.events = None
        return document

    def _call(self, *, nasty: bool) -> tuple[str, Any]:
        source = self._source
        name = source.choice(list(self._schemas))
        properties = self._schemas[name]["properties"]
        keys = source.sample(list(properties), source.randint(0, len(properties)))
        return name, {key: _value(properties[key], source, nasty=nasty) for key in keys}


def _text(text: str) -> list[Piece]:
    return [{"text": text}] if text else []


def _schema(source: random.Random) -> dict[str, Any]:
    keys = source.sample(KEYS, source.randint(0, 4))
    return {"type": "object", "properties": {key: {"type": source.choice(TYPES)} for key in keys}}


def _value(schema: Any, source: random.Random, *, nasty: bool) -> Any:
    match schema["type"]:
        case "string":
            return _string(source, nasty=nasty, typed=True)
        case "integer":
            return source.choice((0, -1, 7, 123456789))
        case "number":
            return source.choice((0, -1.5, 7, 1e-7, 12.25))
        case "boolean":
            return source.random() < 0.5
        case "array":
            return [_inner(source, nasty=nasty, depth=0) for _ in range(source.randint(0, 3))]
        case _:
            return {key: _inner(source, nasty=nasty, depth=0) for key in source.sample(KEYS, source.randint(0, 3))}


def _inner(source: random.Random, *, nasty: bool, depth: int) -> Any:
    kind = source.random()
    if kind < 0.5 or depth > 2:
        return _string(source, nasty=nasty)
    if kind < 0.8:
        return source.choice((0, -1, 3.5, True, False, None))
    if kind < 0.9:
        return [_inner(source, nasty=nasty, depth=depth + 1) for _ in range(source.randint(0, 3))]
    return {key: _inner(source, nasty=nasty, depth=depth + 1) for key in source.sample(KEYS, source.randint(0, 2))}


def _string(source: random.Random, *, nasty: bool, typed: bool = False) -> str:
    """Create a string; an untyped one never looks like another type, because some formats cannot distinguish them."""
    if not nasty:
        return source.choice((*PLAIN, *LOOKALIKES) if typed else PLAIN)
    return "".join(source.choices(NASTY, k=source.choice((0, 1, 2, 3)))).replace("\ud83d\ude42", "🙂")


def _mutate(document: Document, row: Dialect, source: random.Random) -> None:
    start = source.randint(0, len(document.text))
    end = start + min(source.randint(1, 12), len(document.text) - start)
    before, part, after = document.text[:start], document.text[start:end], document.text[end:]
    if source.random() < 0.3:
        marker = source.choice((*row.call_markers(), *row.section.openers(), source.choice(JUNK)))
        document.text = source.choice((before + marker + part + after, (before + part + after).replace(marker, "", 1)))
    else:
        document.text = source.choice(MUTATIONS)(before, part, after, source)
