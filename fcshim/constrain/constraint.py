"""What is put into a request so that its reply holds to a grammar, in the form that an upstream takes.

Rule: made once for the same tools, dialect and choice; whatever cannot be constrained is None, never an error.
Neighbours: `calls` makes grammars, `response_format` knows the client's wish, the shim puts fields into the request.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from fcshim.constrain.call_template import call_template_of
from fcshim.constrain.calls import call_marker, grammar_of_calls, grammar_of_document
from fcshim.constrain.derivative import derivative
from fcshim.constrain.documents import schema_of_calls, structural_tag_of_calls
from fcshim.constrain.free_text import is_unambiguous_marker
from fcshim.constrain.gbnf import write_gbnf
from fcshim.constrain.grammar import ROOT, Grammar, LiteralText, series
from fcshim.constrain.lark import write_lark
from fcshim.constrain.reasoning import ReasoningSyntax, reasoning_of
from fcshim.constrain.response_format import FIELD, is_any_object, requested_schema, without_format
from fcshim.constrain.token_limit import limit_tokens
from fcshim.constrain.triggers import lazy_fields, partial_marker_trigger
from fcshim.events import JSON
from fcshim.messages import Request, Tool
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects.json_bare import BARE_JSON

Form = Literal["gbnf", "llguidance", "guidance", "structural_tag", "json_schema"]
"""`gbnf`: llama.cpp's grammar. `llguidance`: Lark in its place, for a llama.cpp that was built with it. `guidance`:
Lark for vLLM with that backend. `structural_tag`: tags with a JSON Schema inside, as xgrammar has them, or a grammar.
`json_schema`: the whole reply is JSON, so that calls are asked for without tags."""

_GRAMMAR_FORMS: frozenset[Form] = frozenset({"gbnf", "llguidance", "guidance"})
"""The forms that are grammars."""


_CLIENT_CONSTRAINT_FIELDS = frozenset(
    [
        *("grammar", "json_schema", "structured_outputs", "ebnf", "regex"),
        *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "grammar_lazy"),
    ]
)
"""Fields with which a client constrains the reply by itself: it knows what it wants."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What holds one request to calls: `fields` of its body, for the dialect in which they are to be read.

    `key` tells it from others; `notes` say what of the schemas is not held to. `held`: whether every call that a reply
    makes in that dialect is held to its tool's schema. `lazy`: its grammar waits until a call may begin, which only
    llama-server's `/completion` knows how to.
    """

    dialect: Dialect
    fields: dict[str, JSON]
    key: str
    notes: tuple[str, ...] = ()
    covers_all_calls: bool = True
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class _ConstraintSpec:
    """What a constraint depends on, to be remembered by."""

    form: Form
    dialect: Dialect
    tools: bytes
    parallel: bool
    text: bool = False
    """Whether there may be text before a call, and instead of one."""
    lazy: bool = False
    """Whether it waits until a call may begin, in a dialect where that can be told."""
    document: bytes = b""
    """The schema of JSON that may stand instead of calls."""
    tokens: int | None = None
    reasoning: ReasoningSyntax | None = None

    @property
    def tool_list(self) -> list[Tool]:
        """The tools, without what a constraint does not depend on."""
        return [Tool(name, "", parameters) for name, parameters in msgspec.json.decode(self.tools)]


def constraint_for(
    form: Form,
    dialect: Dialect,
    tools: Sequence[Tool],
    request: Request,
    *,
    eager: bool = False,
    lazy: bool = False,
    in_reasoning: str = "",
) -> Constraint | None:
    """Give what holds the reply to calls of `tools`, and to the `response_format`, as `request` demands or allows.

    A call that is demanded is all that there may be. Else there may be a document where the client wants one, and any
    text where it does not; calls are then held to their schemas if `eager`, and where a tool is strict, by a grammar
    that waits for them if `lazy` and it can. A model that thinks may do so first; `in_reasoning` is the tag of the
    reasoning that its prompt has opened. None where nothing needs to be held, where the client has a constraint of its
    own or the server's is as good, and where the dialect has no grammar here.
    """
    if has_client_constraint(request):
        return None
    demanded = request.tool_choice.mode == "required"
    document = None if demanded and tools else requested_schema(request)
    thoughts = reasoning_of(request.model, in_reasoning) if form in _GRAMMAR_FORMS else None
    wanted = _ConstraintSpec(form, dialect, _encoded_tools(tools), request.parallel_tool_calls, reasoning=thoughts)
    if document is not None:
        return _document_constraint(dataclasses.replace(wanted, document=msgspec.json.encode(document)), request)
    if not tools or not (demanded or eager or any(tool.strict for tool in tools)):
        return None
    if demanded:
        return _build(dataclasses.replace(wanted, tokens=_token_limit(request)))
    waits = lazy and form == "gbnf" and is_unambiguous_marker(call_marker(dialect))
    return _build(dataclasses.replace(wanted, text=True, lazy=waits))


def has_client_constraint(request: Request) -> bool:
    """Tell whether the client constrains the reply by itself."""
    return not _CLIENT_CONSTRAINT_FIELDS.isdisjoint(request.extra)


def constrains_document(form: Form | None, request: Request) -> bool:
    """Tell whether a reply without calls is held to the client's `response_format` here, not by the server.

    llama-server holds replies to it as well, but fails (500) where such a reply is cut off by the token limit.
    """
    theirs = has_client_constraint(request)
    return form in _GRAMMAR_FORMS and not theirs and requested_schema(request) is not None


def constraint_for_rest(
    form: Form, dialect: Dialect, tools: Sequence[Tool], request: Request, prefix: str, whitespace: str = ""
) -> Constraint | None:
    """Give what holds a reply to what may follow `prefix`, with which it began to call (`beginning_of_calls`).

    `blank`, white space that was cut off behind that, has to come first, where it may stand there. None where
    `constraint_for` gives none, where a form is no grammar, and where no valid calls begin so.
    """
    if form not in _GRAMMAR_FORMS or not tools or has_client_constraint(request):
        return None
    wanted = _ConstraintSpec(form, dialect, _encoded_tools(tools), request.parallel_tool_calls)
    grammar = _grammar(wanted)
    rest = None if grammar is None else _derived(grammar, prefix, whitespace)
    return None if rest is None else _constraint_of_grammar(wanted, limit_tokens(rest, _token_limit(request)))


def _derived(grammar: Grammar, prefix: str, whitespace: str) -> Grammar | None:
    rest = derivative(grammar, prefix + whitespace) if whitespace else None
    if rest is None:
        return derivative(grammar, prefix)
    first = series(LiteralText(whitespace), rest.rules[ROOT])
    return Grammar({**rest.rules, ROOT: first}, rest.notes, rest.limits)


def apply_constraint(request: Request, constraint: Constraint) -> Request:
    """Give the request with the constraint in it; a client of Ollama's API has its fields for one apart."""
    if not constraint.fields:
        return request
    described = constraint.fields.get(FIELD)
    request = without_format(request)  # llama-server would rather heed that than a grammar
    verbatim = request.verbatim
    if "ollama" in verbatim and described is not None:
        schema = described.get("json_schema", {}).get("schema")
        verbatim = {**verbatim, "ollama": {**verbatim["ollama"], "format": schema}}
    return msgspec.structs.replace(request, extra={**request.extra, **constraint.fields}, verbatim=verbatim)


def _encoded_tools(tools: Sequence[Tool]) -> bytes:
    """Write what a grammar depends on; descriptions are not part of it, and often change."""
    return msgspec.json.encode([(tool.name, tool.parameters) for tool in tools])


def _token_limit(request: Request) -> int | None:
    return None if request.max_tokens is None else max(request.max_tokens, 1)


def _document_constraint(spec: _ConstraintSpec, request: Request) -> Constraint | None:
    """Give what holds the reply to a document, or calls where there are tools.

    A server without grammars holds replies to documents by itself: only calls have to be let through.
    """
    if spec.form in _GRAMMAR_FORMS:
        return _build(spec) or _build(dataclasses.replace(spec, dialect=BARE_JSON))
    if spec.tools == _NO_TOOLS:
        return None
    if spec.form == "json_schema" and is_any_object(requested_schema(request)):
        return Constraint(BARE_JSON, {}, "", covers_all_calls=False)  # a call in JSON is an object, too
    return _build(spec) or _build(dataclasses.replace(spec, form="json_schema"))


@functools.lru_cache(maxsize=64)
def _build(spec: _ConstraintSpec) -> Constraint | None:
    match spec.form:
        case "structural_tag":
            return _structural_tag(spec)
        case "json_schema":
            if spec.text:
                return None
            schema = schema_of_calls(spec.tool_list, parallel=spec.parallel, document=_decoded(spec.document))
            described = {"name": "reply", "schema": schema}
            return _make_constraint(BARE_JSON, {FIELD: {"type": "json_schema", "json_schema": described}})
        case _:
            return _grammar_constraint(spec)


def _structural_tag(spec: _ConstraintSpec) -> Constraint | None:
    """Give tags with schemas inside; where calls are no such tags, one grammar that says all of them."""
    frames = call_template_of(spec.dialect)
    if frames is None:
        return None
    marker = call_marker(spec.dialect) if spec.text else ""
    tag = None
    if frames.is_json and (marker or not spec.text):
        tag = structural_tag_of_calls(
            frames, spec.tool_list, parallel=spec.parallel, trigger=marker, document=_decoded(spec.document)
        )
    return _grammar_constraint(spec) if tag is None else _make_constraint(spec.dialect, {FIELD: tag})


def _grammar_constraint(spec: _ConstraintSpec) -> Constraint | None:
    grammar = _grammar(dataclasses.replace(spec, tokens=None))
    return None if grammar is None else _constraint_of_grammar(spec, limit_tokens(grammar, spec.tokens))


@functools.lru_cache(maxsize=64)
def _grammar(spec: _ConstraintSpec) -> Grammar | None:
    tools, parallel, thoughts = spec.tool_list, spec.parallel, spec.reasoning
    if spec.document:
        document = _decoded(spec.document)
        return grammar_of_document(document, spec.dialect, tools, parallel=parallel, reasoning=thoughts)
    return grammar_of_calls(spec.dialect, tools, parallel=parallel, text=spec.text, reasoning=thoughts)


def _constraint_of_grammar(spec: _ConstraintSpec, grammar: Grammar) -> Constraint:
    marker = call_marker(spec.dialect)
    held = not spec.text or is_unambiguous_marker(marker)
    fields = _grammar_fields(spec.form, grammar)
    if spec.lazy:
        triggers = [partial_marker_trigger(marker)] if spec.reasoning is None else spec.reasoning.triggers(marker)
        fields |= lazy_fields(spec.dialect, triggers)
    return _make_constraint(spec.dialect, fields, grammar.notes, held=held, lazy=spec.lazy)


def _grammar_fields(form: Form, grammar: Grammar) -> dict[str, JSON]:
    """Give the fields of a request that say a grammar."""
    match form:
        case "llguidance":
            return {"grammar": f"%llguidance {{}}\n{write_lark(grammar)}"}
        case "guidance":
            return {"structured_outputs": {"grammar": write_lark(grammar)}}
        case "structural_tag":
            written = {"type": "grammar", "grammar": write_gbnf(grammar)}
            return {FIELD: {"type": "structural_tag", "format": written}}
        case _:
            return {"grammar": write_gbnf(grammar)}


def _decoded(document: bytes) -> JSON:
    return msgspec.json.decode(document) if document else None


_NO_TOOLS = _encoded_tools(())


def _make_constraint(
    dialect: Dialect,
    fields: dict[str, JSON],
    notes: tuple[str, ...] = (),
    *,
    held: bool = True,
    lazy: bool = False,
) -> Constraint:
    key = hashlib.sha256(msgspec.json.encode(fields)).hexdigest()
    return Constraint(dialect, fields, key, notes, held, lazy)
