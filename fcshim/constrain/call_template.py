"""What a dialect writes around the arguments of calls, and in which language these are: learnt from its templates.

Rule: what the templates write is found by writing marks with them; nothing that they or the row say is said twice.
Neighbours: `prompt.render` writes the calls, `notation` has the languages, `calls` makes a grammar of the frames.
"""

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fcshim.constrain.literals import GemmaSyntax, PythonSyntax
from fcshim.constrain.tagged import KEY_PLACEHOLDER as KEY_MARK
from fcshim.constrain.tagged import ElementSyntax, TaggedSyntax
from fcshim.constrain.value_syntax import JSON_SYNTAX, ValueSyntax, json_text
from fcshim.parse.dialect import Body, Dialect
from fcshim.parse.json.body import JsonShape
from fcshim.parse.json.header import HeaderShape
from fcshim.parse.literals.gemma_body import GemmaCalls
from fcshim.parse.literals.python_body import PythonCalls
from fcshim.parse.tagged.syntax import TaggedCalls
from fcshim.parse.tagged.tags import Tags, compile_tags
from fcshim.parse.union_body import UnionBody
from fcshim.prompt.notation import gemma_literal, python_arguments
from fcshim.prompt.render import render_calls

MOST_CALLS = 8
"""Calls of one reply that a grammar admits."""

_STRING_OR_WHITESPACE = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*"?)|[ \t\r\n]+', re.DOTALL)
"""A string, which may be cut off, or white space between."""

_KEY, _VALUE, _NAME = "qxkeyxq", "qxvaluexq", "\ue001"
_SAMPLE_ARGUMENTS = json.dumps({_KEY: 0})


@dataclass(frozen=True, slots=True)
class CallTemplate:
    """Texts with places for names: before the first call's arguments, before those of each further one, and at the end.

    `more` is empty where only one call at a time can be told.
    """

    opening: str
    separators: tuple[str, ...]
    closing: str
    syntax: ValueSyntax = JSON_SYNTAX
    """The language of the arguments."""

    @property
    def is_json(self) -> bool:
        """Whether arguments are one JSON object, so that a schema says all of them."""
        return self.syntax is JSON_SYNTAX

    def before_name(self, at: int) -> str:
        """Give what stands before the name of call number `at`, from the end of the arguments before it."""
        return self._before_arguments(at).partition(_NAME)[0]

    def name_to_arguments(self, at: int, name: str) -> str:
        """Give the name and what stands between it and the arguments."""
        _, place, rest = self._before_arguments(at).partition(_NAME)
        quoted = f'"{_NAME}"' in self.opening and self.is_json
        return (place + rest).replace(_NAME, json_text(name)[1:-1] if quoted else name)

    def _before_arguments(self, at: int) -> str:
        return self.separators[at - 1] if at else self.opening


@functools.lru_cache(maxsize=256)
def call_template_of(dialect: Dialect) -> CallTemplate | None:
    """Give the frames; None where the templates write calls in a way that is not known here."""
    found = _value_syntax(dialect)
    if found is None:
        return None
    notation, written = found
    pieces = _fixed_parts(dialect, written, MOST_CALLS)
    single = _fixed_parts(dialect, written, 1)
    if single is None or _NAME not in single[0]:
        return None
    alone = CallTemplate(single[0].lstrip(), (), single[-1].rstrip(), notation)
    if pieces is None or (pieces[0], pieces[-1]) != (single[0], single[-1]):
        return alone
    return CallTemplate(alone.opening, tuple(pieces[1:-1]), alone.closing, notation)


def write_partial_calls(dialect: Dialect, calls: Sequence[tuple[str, str]]) -> str | None:
    """Write a reply of calls, of which the last one has only begun: names, each with its arguments' strict JSON so far.

    White space between values is left out: what may follow does not depend on it. None where the dialect has no frames,
    or none for so many calls, and where its arguments are no JSON.
    """
    frames = call_template_of(dialect)
    if frames is None or not frames.is_json or not calls or len(calls) > 1 + len(frames.separators):
        return None
    return "".join(
        frames.before_name(at) + frames.name_to_arguments(at, name) + _STRING_OR_WHITESPACE.sub(r"\1", arguments)
        for at, (name, arguments) in enumerate(calls)
    )


def _fixed_parts(dialect: Dialect, sample: str, count: int) -> list[str] | None:
    """Give what the templates write around the arguments of so many calls, each of which they write as `written`."""
    text = _rendered(dialect, count, _SAMPLE_ARGUMENTS)
    pieces = [] if text is None else text.split(sample)
    return pieces if len(pieces) == count + 1 and not any(_KEY in piece for piece in pieces) else None


def _rendered(dialect: Dialect, count: int, arguments: str) -> str | None:
    try:
        return render_calls(dialect, [(_NAME, arguments)] * count)
    except ValueError:
        return None


def _value_syntax(dialect: Dialect) -> tuple[ValueSyntax, str] | None:
    """Give the language of a dialect's arguments, and how it writes those of the mark."""
    body: Body = dialect.body.bodies[0] if isinstance(dialect.body, UnionBody) else dialect.body
    match body:
        case JsonShape() | HeaderShape():
            return JSON_SYNTAX, _SAMPLE_ARGUMENTS
        case PythonCalls():
            return PythonSyntax(), python_arguments(_SAMPLE_ARGUMENTS)
        case GemmaCalls():
            return GemmaSyntax(dialect.quote), gemma_literal(json.loads(_SAMPLE_ARGUMENTS), dialect.quote)
        case TaggedCalls():
            return _tagged_syntax(dialect, body.tags)
        case _:
            return None


def _tagged_syntax(dialect: Dialect, tags: Tags) -> tuple[ValueSyntax, str] | None:
    """Learn what stands around a value: the templates write a call without parameters, with one, and with another."""
    texts = [_rendered(dialect, 1, json.dumps(each)) for each in ({}, {_KEY: 0}, {_KEY: _VALUE})]
    bare, marked, texted = (text or "" for text in texts)
    opening = tags.parameter_opening(_KEY, _VALUE)
    start, value = texted.find(opening), texted.find(_VALUE)
    rest = bare[start:]
    if start < 0 or value < 0 or bare[:start] != texted[:start] or not texted.endswith(rest) or not rest:
        return None
    before = texted[start + len(opening) : value]
    behind = texted[value + len(_VALUE) : -len(rest)]
    kind = ElementSyntax if tags.nested else TaggedSyntax
    notation = kind(compile_tags(tags, dialect.openers(), dialect.closers()), before, behind.replace(_KEY, KEY_MARK))
    return notation, marked[start : -len(rest)]
