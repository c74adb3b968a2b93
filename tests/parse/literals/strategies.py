"""Hypothesis strategies for literals in Python's and Gemma's syntax, with their values.

Rule: a written value is a pair of its text and its value as JSON.
"""

import ast
import json
from collections.abc import Iterator
from typing import Any, TypeAlias

from hypothesis import strategies as st
from lark import Token, Tree

from fcshim.parse.arguments.atoms import atom_to_json

JSON: TypeAlias = Any
WrittenValue: TypeAlias = tuple[str, JSON]

TEXT_FRAGMENTS = [
    "Paris",
    " ",
    "it",
    "a, b=1",
    "x: 1",
    "é",
    "\U0001f642",
    "<",
    "{",
    "}",
    ")",
    "]",
    "#",
    "\n",
    "\\",
    '"',
    "\\n",
    "1",
]
text_values = st.lists(st.sampled_from(TEXT_FRAGMENTS), max_size=6).map("".join)
spaces = st.sampled_from(["", "", " ", "\n  "])
ATOMS = ["0", "7", "-12", "1_000", "+1", "0x1F", "0b101", "5.", ".5", "-1.25", "1e3", "1E-2", "True", "False", "None"]
JSON_ATOMS = ["true", "false", "null"]


def atom_value(atom: str) -> JSON:
    """Read a number or literal."""
    strict = atom_to_json(atom)
    assert strict is not None
    return json.loads(strict)


@st.composite
def python_strings(draw: st.DrawFn) -> WrittenValue:
    """A string in one of Python's ways to write it."""
    text = draw(text_values)
    match draw(st.integers(0, 4)):
        case 0:
            return repr(text), text
        case 1:
            return json.dumps(text), text
        case 2:
            return "'''" + text.replace("\\", "\\\\").replace("'", "\\'") + "'''", text
        case 3 if not text.endswith("\\") and '"' not in text:
            return f'{draw(st.sampled_from(["r", "R"]))}"""{text}"""', text
        case _:
            return "'" + "".join(f"\\U{ord(character):08x}" for character in text) + "'", text


def _bracketed(opener: str, closer: str, inner: "st.SearchStrategy[WrittenValue]") -> "st.SearchStrategy[WrittenValue]":
    @st.composite
    def made(draw: st.DrawFn) -> WrittenValue:
        items = draw(st.lists(inner, max_size=3))
        comma = opener == "(" and len(items) == 1
        text = draw(spaces) + ("," + draw(spaces)).join(text for text, _ in items)
        end = "," if items and (comma or draw(st.booleans())) else ""
        return f"{opener}{text}{end}{draw(spaces)}{closer}", [value for _, value in items]

    return made()


@st.composite
def _dicts(draw: st.DrawFn, inner: "st.SearchStrategy[WrittenValue]") -> WrittenValue:
    keys = draw(
        st.lists(
            python_strings().filter(lambda spelled: "\n" not in spelled[0]),
            max_size=3,
            unique_by=lambda spelled: spelled[1],
        )
    )
    members = [(key, draw(inner)) for key in keys]
    text = ", ".join(f"{key}{draw(spaces)}:{draw(spaces)}{value}" for (key, _), (value, _) in members)
    return f"{{{text}}}", {key: value for (_, key), (_, value) in members}


def _inner(inner: "st.SearchStrategy[WrittenValue]") -> "st.SearchStrategy[WrittenValue]":
    return _bracketed("[", "]", inner) | _bracketed("(", ")", inner) | _dicts(inner)


python_atoms = st.sampled_from(ATOMS).map(lambda atom: (atom, atom_value(atom)))
python_values = st.recursive(python_strings() | python_atoms, _inner, max_leaves=6)


@st.composite
def gemma_values(draw: st.DrawFn, depth: int = 2) -> WrittenValue:
    """A value as Gemma writes it."""
    match draw(st.integers(0, 5 if depth else 3)):
        case 0 | 1:
            text = draw(text_values)
            return f'<|"|>{text}<|"|>', text
        case 2:
            atom = draw(st.sampled_from(ATOMS + JSON_ATOMS))
            return atom, atom_value(atom)
        case 3:
            word = draw(st.sampled_from(["Paris", "New York", "12:30", "a-b", "nano", "1.2.3"]))
            return word, word
        case 4:
            items = draw(st.lists(gemma_values(depth - 1), max_size=3))
            return "[" + ",".join(text for text, _ in items) + "]", [value for _, value in items]
        case _:
            return draw(gemma_objects(depth - 1))


@st.composite
def gemma_objects(draw: st.DrawFn, depth: int = 2) -> WrittenValue:
    """An object as Gemma writes it."""
    keys = draw(st.lists(st.sampled_from(["a", "b c", "naïve", "x-y", "true"]), max_size=3, unique=True))
    members = [(key, draw(gemma_values(depth))) for key in keys]
    text = ("," + draw(spaces)).join(f"{key}:{draw(spaces)}{value}" for key, (value, _) in members)
    return f"{{{text}{draw(st.sampled_from(['', ' ']))}}}", {key: value for key, (_, value) in members}


def calls_of(tree: Tree[Token]) -> list[WrittenValue]:
    """Return the calls of a parse tree, each with name and arguments."""
    found = [child for child in tree.children if isinstance(child, Tree)]
    return [(str(call.children[0]).strip(), _arguments(call)) for call in found]


def _arguments(call: Tree[Token]) -> JSON:
    return dict(member for child in call.children[1:] if isinstance(child, Tree) for member in _members(child))


def _members(tree: Tree[Token]) -> Iterator[tuple[str, JSON]]:
    if tree.data == "spread":
        yield from _value(tree.children[0]).items()
    else:
        key, value = (child for child in tree.children if not _is_end(child))
        name = str(key).strip() if isinstance(key, Token) and key.type in {"KEY", "WORD"} else _value(key)
        yield name if isinstance(name, str) else json.dumps(name), _value(value)


def _is_end(node: Tree[Token] | Token) -> bool:
    return isinstance(node, Token) and node.type == "END"


def _value(node: Tree[Token] | Token) -> JSON:
    if isinstance(node, Token):
        return _scalar(node)
    children = [child for child in node.children if not _is_end(child)]
    match node.data:
        case "string":
            return "".join(map(_value, children))
        case "dict" | "object":
            return dict(member for child in children if isinstance(child, Tree) for member in _members(child))
        case _:
            return list(map(_value, children))


def _scalar(token: Token) -> JSON:
    match token.type:
        case "NUMBER" | "LITERAL":
            return atom_value(str(token))
        case "QUOTED":
            return str(token)[5:-5]
        case "WORD":
            return str(token).strip()
        case _:
            return _python_string(str(token))


def _python_string(token: str) -> str:
    """Read a string as Python does, once its raw newlines and unescaped quotes are escaped."""
    prefix = token[: min(token.find(quote) for quote in "\"'" if quote in token)]
    quote = token[len(prefix)]
    long = token[len(prefix) :].startswith(quote * 3) and len(token) >= len(prefix) + 6
    marks = quote * 3 if long else quote
    content = token[len(prefix) + len(marks) : -len(marks)]
    if "r" in prefix.lower():
        return content
    escaped, skip = "", False
    for character in content:
        escaped += (
            "\\n" if character == "\n" and not skip else "\\" + quote if character == quote and not skip else character
        )
        skip = character == "\\" and not skip
    text: str = ast.literal_eval(f"{quote}{escaped}{quote}")
    return text.encode("utf-16", "surrogatepass").decode("utf-16")
