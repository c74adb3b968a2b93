"""The fixed text of a dialect around the arguments of calls, and the syntax of the arguments, read from its templates.

Rule: the prompt's templates are rendered with placeholders, so that the grammar repeats nothing that a template or the
dialect table already says.
"""

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fcshim.constrain.tagged import KEY_PLACEHOLDER, ElementSyntax, TaggedSyntax
from fcshim.constrain.value_syntax import JSON_SYNTAX, GemmaSyntax, PythonSyntax, ValueSyntax, json_text
from fcshim.parse.body_selection import UnionBody
from fcshim.parse.dialect import Body, Dialect
from fcshim.parse.literals.gemma_body import GemmaCalls
from fcshim.parse.literals.python_body import PythonCalls
from fcshim.parse.tagged.syntax import ElementCalls, TaggedCalls
from fcshim.parse.tagged.tag_reading import compile_tags
from fcshim.parse.tagged.tags import Tags
from fcshim.prompt.notation import gemma_literal, python_arguments
from fcshim.prompt.render import render_calls

MAX_CALLS = 8
"""Maximum number of calls of one reply that a grammar admits."""

_STRING_OR_WHITESPACE = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*"?)|[ \t\r\n]+', re.DOTALL)
"""A JSON string, possibly cut off, or white space outside strings."""

# Placeholders that no template contains. Key and value are plain words, which Python and Gemma write without quotes.
_KEY, _VALUE, _NAME = "qxkeyxq", "qxvaluexq", "\ue001"
_SAMPLE_ARGUMENTS = json.dumps({_KEY: 0})


@dataclass(frozen=True, slots=True)
class CallTemplate:
    """The text before the arguments of the first call, between calls, and after the last one, with name placeholders.

    `separators` has one text for each further call; it is empty where the dialect cannot write several calls.
    """

    opening: str
    separators: tuple[str, ...]
    closing: str
    syntax: ValueSyntax = JSON_SYNTAX
    """The syntax of the arguments."""

    @property
    def is_json(self) -> bool:
        """Whether the arguments are one JSON object, which a JSON Schema describes completely."""
        return self.syntax is JSON_SYNTAX

    def before_name(self, at: int) -> str:
        """Return the text before the name of call number `at`, from the end of the previous arguments."""
        return self._before_arguments(at).partition(_NAME)[0]

    def name_to_arguments(self, at: int, name: str) -> str:
        """Return the name and the text between it and the arguments."""
        _, placeholder, rest = self._before_arguments(at).partition(_NAME)
        quoted = f'"{_NAME}"' in self.opening and self.is_json
        return (placeholder + rest).replace(_NAME, json_text(name)[1:-1] if quoted else name)

    def _before_arguments(self, at: int) -> str:
        return self.separators[at - 1] if at else self.opening


@functools.lru_cache(maxsize=256)
def call_template_of(dialect: Dialect) -> CallTemplate | None:
    """Return the call template of a dialect; None where its templates write calls in an unknown form."""
    found = _value_syntax(dialect)
    if found is None:
        return None
    syntax, sample = found
    several = _fixed_parts(dialect, sample, MAX_CALLS)
    single = _fixed_parts(dialect, sample, 1)
    if single is None or _NAME not in single[0]:
        return None
    template = CallTemplate(single[0].lstrip(), (), single[-1].rstrip(), syntax)
    if several is None or (several[0], several[-1]) != (single[0], single[-1]):
        return template
    return CallTemplate(template.opening, tuple(several[1:-1]), template.closing, syntax)


def write_partial_calls(dialect: Dialect, calls: Sequence[tuple[str, str]]) -> str | None:
    """Write a reply whose last call is incomplete: names, each with the strict JSON of its arguments so far.

    White space between values is left out, since what may follow does not depend on it. None where the dialect has no
    call template, not enough separators, or arguments that are not JSON.
    """
    template = call_template_of(dialect)
    if template is None or not template.is_json or not calls or len(calls) > 1 + len(template.separators):
        return None
    return "".join(
        template.before_name(at) + template.name_to_arguments(at, name) + _STRING_OR_WHITESPACE.sub(r"\1", arguments)
        for at, (name, arguments) in enumerate(calls)
    )


def _fixed_parts(dialect: Dialect, sample: str, count: int) -> list[str] | None:
    """Return the text around the arguments of `count` calls, which the dialect writes as `sample`."""
    text = _rendered(dialect, count, _SAMPLE_ARGUMENTS)
    parts = [] if text is None else text.split(sample)
    return parts if len(parts) == count + 1 and not any(_KEY in part for part in parts) else None


def _rendered(dialect: Dialect, count: int, arguments: str) -> str | None:
    try:
        return render_calls(dialect, [(_NAME, arguments)] * count)
    except ValueError:
        return None


def _value_syntax(dialect: Dialect) -> tuple[ValueSyntax, str] | None:
    """Return the syntax of a dialect's arguments, and how it writes the sample arguments."""
    body: Body = dialect.body.bodies[0] if isinstance(dialect.body, UnionBody) else dialect.body
    match body:
        case PythonCalls():
            return PythonSyntax(), python_arguments(_SAMPLE_ARGUMENTS)
        case GemmaCalls():
            return GemmaSyntax(dialect.quote), gemma_literal(json.loads(_SAMPLE_ARGUMENTS), dialect.quote)
        case TaggedCalls():
            return _tagged_syntax(dialect, body.tags)
        case ElementCalls():
            return None  # the closing tag repeats the tool's name, and the opening of a value depends on the tool
        case _:  # JSON, also in a body of another package; `_fixed_parts` finds it only if the templates write it
            return JSON_SYNTAX, _SAMPLE_ARGUMENTS


def _tagged_syntax(dialect: Dialect, tags: Tags) -> tuple[ValueSyntax, str] | None:
    """Find the text around a value by comparing a call without parameters, with a number, and with a string."""
    texts = [_rendered(dialect, 1, json.dumps(each)) for each in ({}, {_KEY: 0}, {_KEY: _VALUE})]
    empty, with_number, with_string = (text or "" for text in texts)
    opening = tags.parameter_opening(_KEY, _VALUE)
    start, value = with_string.find(opening), with_string.find(_VALUE)
    rest = empty[start:]
    if start < 0 or value < 0 or empty[:start] != with_string[:start] or not with_string.endswith(rest) or not rest:
        return None
    prefix = with_string[start + len(opening) : value]
    suffix = with_string[value + len(_VALUE) : -len(rest)].replace(_KEY, KEY_PLACEHOLDER)
    kind = ElementSyntax if tags.nested else TaggedSyntax
    syntax = kind(compile_tags(tags, dialect.openers(), dialect.closers()), prefix, suffix)
    return syntax, with_number[start : -len(rest)]
