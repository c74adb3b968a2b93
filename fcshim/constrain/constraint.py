"""What is put into a request so that its reply holds to a grammar, in the form that an upstream takes.

Rule: made once for the same tools, dialect and choice; whatever cannot be constrained is None, never an error.
Neighbours: `calls` makes the grammar, the shim puts the fields into the request, `profiles` says who takes which form.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from fcshim.constrain.calls import grammar_of_calls
from fcshim.constrain.documents import schema_of_calls, structural_tag_of_calls
from fcshim.constrain.frames import frames_of
from fcshim.constrain.gbnf import write_gbnf
from fcshim.constrain.grammar import Grammar, fitted
from fcshim.constrain.residue import residue
from fcshim.events import JSON
from fcshim.messages import Request, Tool
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects.json_bare import BARE_JSON

Form = Literal["gbnf", "structural_tag", "json_schema"]
"""`gbnf`: llama.cpp's grammar. `structural_tag`: tags with a JSON Schema inside, as xgrammar has them. `json_schema`:
the whole reply is JSON, so that calls are asked for without tags."""

_THEIR_OWN = frozenset(
    [
        *("grammar", "json_schema", "response_format", "structured_outputs", "ebnf", "regex"),
        *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "grammar_lazy"),
    ]
)
"""Fields with which a client constrains the reply by itself: it knows what it wants."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What holds one request to calls: `fields` of its body, for the dialect in which they are to be read.

    `key` tells it from others; `notes` say what of the schemas is not held to.
    """

    dialect: Dialect
    fields: dict[str, JSON]
    key: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a constraint depends on, to be remembered by."""

    form: Form
    dialect: Dialect
    tools: bytes
    text: bool
    parallel: bool
    tokens: int | None = None

    @property
    def listed(self) -> list[Tool]:
        """The tools, without what a constraint does not depend on."""
        return [Tool(name, "", parameters) for name, parameters in msgspec.json.decode(self.tools)]


def constraint_for(form: Form, dialect: Dialect, tools: Sequence[Tool], request: Request) -> Constraint | None:
    """Give what holds the reply to calls of `tools`, which `request` demands or allows.

    None where the client has a constraint of its own, or the dialect has no grammar here.
    """
    if not tools or not _THEIR_OWN.isdisjoint(request.extra):
        return None
    text = request.tool_choice.mode != "required"
    return _made(_Wanted(form, dialect, _told(tools), text, request.parallel_tool_calls, _tokens(request)))


def constraint_for_rest(
    form: Form, dialect: Dialect, tools: Sequence[Tool], request: Request, prefix: str
) -> Constraint | None:
    """Give what holds a reply to what may follow `prefix`, with which it began to call (`beginning_of_calls`).

    None where `constraint_for` gives none, where a form is no grammar, and where no valid calls begin so.
    """
    if form != "gbnf" or not tools or not _THEIR_OWN.isdisjoint(request.extra):
        return None
    grammar = _calls(_Wanted(form, dialect, _told(tools), text=False, parallel=request.parallel_tool_calls))
    rest = None if grammar is None else residue(grammar, prefix)
    return None if rest is None else _in_tokens(dialect, rest, _tokens(request))


def constrained(request: Request, constraint: Constraint) -> Request:
    """Give the request with the constraint in it; a client of Ollama's API has its fields for one apart."""
    verbatim = request.verbatim
    described = constraint.fields.get("response_format")
    if "ollama" in verbatim and described is not None:
        schema = described.get("json_schema", {}).get("schema")
        verbatim = {**verbatim, "ollama": {**verbatim["ollama"], "format": schema}}
    return msgspec.structs.replace(request, extra={**request.extra, **constraint.fields}, verbatim=verbatim)


def _told(tools: Sequence[Tool]) -> bytes:
    """Write what a grammar depends on; descriptions are not part of it, and often change."""
    return msgspec.json.encode([(tool.name, tool.parameters) for tool in tools])


def _tokens(request: Request) -> int | None:
    return None if request.max_tokens is None else max(request.max_tokens, 1)


@functools.lru_cache(maxsize=64)
def _made(wanted: _Wanted) -> Constraint | None:
    tools = wanted.listed
    match wanted.form:
        case "gbnf":
            grammar = _calls(dataclasses.replace(wanted, tokens=None))
            tokens = None if wanted.text else wanted.tokens
            return None if grammar is None else _in_tokens(wanted.dialect, grammar, tokens)
        case "structural_tag":
            frames = frames_of(wanted.dialect)
            if frames is None or not frames.is_json or wanted.text:
                return None
            tag = structural_tag_of_calls(frames, tools, parallel=wanted.parallel)
            return None if tag is None else _constraint(wanted.dialect, {"response_format": tag})
        case "json_schema":
            if wanted.text:
                return None
            described = {"name": "calls", "schema": schema_of_calls(tools, parallel=wanted.parallel)}
            return _constraint(BARE_JSON, {"response_format": {"type": "json_schema", "json_schema": described}})


@functools.lru_cache(maxsize=64)
def _calls(wanted: _Wanted) -> Grammar | None:
    return grammar_of_calls(wanted.dialect, wanted.listed, parallel=wanted.parallel, text=wanted.text)


def _in_tokens(dialect: Dialect, grammar: Grammar, tokens: int | None) -> Constraint:
    grammar = fitted(grammar, tokens)
    return _constraint(dialect, {"grammar": write_gbnf(grammar)}, grammar.notes)


def _constraint(dialect: Dialect, fields: dict[str, JSON], notes: tuple[str, ...] = ()) -> Constraint:
    return Constraint(dialect, fields, hashlib.sha256(msgspec.json.encode(fields)).hexdigest(), notes)
