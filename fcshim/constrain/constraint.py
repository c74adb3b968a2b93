"""The request fields that constrain a reply to valid calls or a document, in the form that an upstream accepts.

Rule: equal tools, dialect and options build a constraint once (LRU cache); what cannot be constrained gives None, never
an error.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from fcshim.constrain.call_template import MAX_CALLS, call_template_of
from fcshim.constrain.calls import (
    call_marker,
    grammar_of_calls,
    grammar_of_document,
    schema_of_calls,
    structural_tag_of_calls,
)
from fcshim.constrain.derivative import derivative
from fcshim.constrain.free_text import is_unambiguous_marker
from fcshim.constrain.grammar import ROOT, Grammar, LiteralText, series
from fcshim.constrain.reasoning import ReasoningSyntax, reasoning_of
from fcshim.constrain.token_limit import limit_tokens
from fcshim.constrain.triggers import lazy_fields, partial_marker_trigger
from fcshim.constrain.writer import write_gbnf, write_lark, write_regex
from fcshim.events import JSON
from fcshim.messages import RESPONSE_FORMAT, Request, Tool, is_any_object, requested_schema, without_format
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects.json_bare import BARE_JSON

Form = Literal["gbnf", "llguidance", "guidance", "structural_tag", "json_schema", "regex"]
"""`gbnf`: llama.cpp's grammar. `llguidance`: Lark in the same field, for a llama.cpp built with llguidance.
`guidance`: Lark for vLLM's guidance backend. `structural_tag`: xgrammar's tags with a JSON Schema inside, or a grammar.
`json_schema`: the whole reply is JSON, so calls are requested without tags. `regex`: one regular expression."""

_GRAMMAR_FORMS: frozenset[Form] = frozenset({"gbnf", "llguidance", "guidance", "regex"})
"""The forms that carry a grammar."""
_CLIENT_CONSTRAINT_FIELDS = frozenset(
    [
        "grammar", "json_schema", "structured_outputs", "ebnf", "regex",
        "guided_json", "guided_regex", "guided_choice", "guided_grammar", "grammar_lazy",
    ]
)  # fmt: skip
"""Fields with which a client constrains the reply itself; fcshim then adds nothing."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """The fields that constrain one request, and the dialect in which the reply then writes calls.

    `key` identifies equal fields; `notes` list what of the schemas is not enforced. `covers_all_calls`: every call that
    the parser could read in that dialect is constrained to its tool's schema. `lazy`: the grammar starts when a call
    may begin, which only llama-server's `/completion` supports.
    """

    dialect: Dialect
    fields: dict[str, JSON]
    key: str
    notes: tuple[str, ...] = ()
    covers_all_calls: bool = True
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class _ConstraintSpec:
    """Everything that a constraint depends on: the key of the caches."""

    form: Form
    dialect: Dialect
    tools: bytes
    max_calls: int
    text: bool = False
    """Whether free text is allowed before a call, and instead of one."""
    lazy: bool = False
    """Whether the grammar starts only when a call may begin."""
    document: bytes = b""
    """The schema of a JSON document that the reply may be instead of calls."""
    tokens: int | None = None
    reasoning: ReasoningSyntax | None = None

    @property
    def tool_list(self) -> list[Tool]:
        """The tools with names and parameters only."""
        return [Tool(name, "", parameters) for name, parameters in msgspec.json.decode(self.tools)]


def constraint_for(
    form: Form,
    dialect: Dialect,
    tools: Sequence[Tool],
    request: Request,
    *,
    eager: bool = False,
    lazy: bool = False,
    open_reasoning_tag: str = "",
    max_calls: int = MAX_CALLS,
) -> Constraint | None:
    """Return the constraint for a request with these tools.

    With `tool_choice` "required" the reply is calls only. Otherwise it is calls or the document of `response_format`,
    or, without one, free text with calls; the latter is constrained if `eager` is set or a tool is strict, by a lazy
    grammar if `lazy` is set and the form and dialect support it. A reasoning model may reason first;
    `open_reasoning_tag` is the tag of reasoning that the prompt has already opened. There are at most `max_calls`, and
    only one where a call is demanded, unless the client asks for parallel calls. None where nothing needs a constraint,
    the client sends its own, the server enforces the document itself, or the dialect has no call template.
    """
    if has_client_constraint(request):
        return None
    required = request.tool_choice.mode == "required"
    document = None if required and tools else requested_schema(request)
    reasoning = (
        reasoning_of(request.real_model or request.model, open_reasoning_tag) if form in _GRAMMAR_FORMS else None
    )
    # Where a call is demanded, only the client's wish allows several: a weak model invents calls up to the last one.
    several = request.parallel_tool_calls if required else request.allows_parallel_calls
    admitted = min(max_calls, MAX_CALLS if several else 1)
    spec = _ConstraintSpec(form, dialect, _encoded_tools(tools), admitted, reasoning=reasoning)
    if document is not None:
        return _document_constraint(dataclasses.replace(spec, document=msgspec.json.encode(document)), request)
    if not _needs_constraint(tools, request, eager=eager):
        return None
    if required:
        return _build(dataclasses.replace(spec, tokens=_token_limit(request)))
    is_lazy = lazy and form == "gbnf" and is_unambiguous_marker(call_marker(dialect))
    return _build(dataclasses.replace(spec, text=True, lazy=is_lazy))


def _needs_constraint(tools: Sequence[Tool], request: Request, *, eager: bool) -> bool:
    """Return whether a constraint of the calls has something to enforce."""
    required = request.tool_choice.mode == "required"
    return bool(tools) and (required or eager or any(tool.strict for tool in tools))


def dialect_note(dialect: Dialect) -> str:
    """Return the note that no grammar describes the calls of a dialect; empty if one does."""
    if call_template_of(dialect) is not None:
        return ""
    return (
        f"calls in the dialect {dialect.name!r} cannot be constrained: its templates do not show how values are written"
    )


def unconstrained_note(
    form: Form, dialect: Dialect, tools: Sequence[Tool], request: Request, *, eager: bool = False
) -> str:
    """Return why `constraint_for` gives None although a constraint of the calls is wanted; empty if it is not."""
    wanted = _needs_constraint(tools, request, eager=eager) and not has_client_constraint(request)
    return dialect_note(dialect) if wanted and form != "json_schema" else ""


def has_client_constraint(request: Request) -> bool:
    """Return whether the client constrains the reply itself."""
    return not _CLIENT_CONSTRAINT_FIELDS.isdisjoint(request.extra)


def constrains_document(form: Form | None, request: Request) -> bool:
    """Return whether a grammar, not the server, enforces the client's `response_format` on replies without calls.

    llama-server enforces it too, but answers 500 where the token limit cuts such a reply off.
    """
    unconstrained = not has_client_constraint(request)
    return form in _GRAMMAR_FORMS and unconstrained and requested_schema(request) is not None


def constraint_for_rest(
    form: Form,
    dialect: Dialect,
    tools: Sequence[Tool],
    request: Request,
    prefix: str,
    whitespace: str = "",
    *,
    max_calls: int = MAX_CALLS,
) -> Constraint | None:
    """Return the constraint for the rest of a reply that begins with `prefix`, written by `write_partial_calls`.

    `whitespace` was cut off after the prefix; the rest starts with it where the grammar admits it there. `max_calls`
    counts those of the prefix too. None where `constraint_for` gives none, the form carries no grammar, or no valid
    call starts with the prefix.
    """
    if form not in _GRAMMAR_FORMS or not tools or has_client_constraint(request):
        return None
    spec = _ConstraintSpec(form, dialect, _encoded_tools(tools), max_calls if request.allows_parallel_calls else 1)
    grammar = _grammar(spec)
    rest = None if grammar is None else _derived(grammar, prefix, whitespace)
    return None if rest is None else _constraint_of_grammar(spec, limit_tokens(rest, _token_limit(request)))


def _derived(grammar: Grammar, prefix: str, whitespace: str) -> Grammar | None:
    rest = derivative(grammar, prefix + whitespace) if whitespace else None
    if rest is None:
        return derivative(grammar, prefix)
    first = series(LiteralText(whitespace), rest.rules[ROOT])
    return Grammar({**rest.rules, ROOT: first}, rest.notes, rest.limits)


def apply_constraint(request: Request, constraint: Constraint) -> Request:
    """Add the constraint's fields to the request; for Ollama's API, the schema also replaces `format`."""
    if not constraint.fields:
        return request
    described = constraint.fields.get(RESPONSE_FORMAT)
    request = without_format(request)  # llama-server gives it precedence over a grammar
    verbatim = request.verbatim
    if "ollama" in verbatim and described is not None:
        schema = described.get("json_schema", {}).get("schema")
        verbatim = {**verbatim, "ollama": {**verbatim["ollama"], "format": schema}}
    return msgspec.structs.replace(request, extra={**request.extra, **constraint.fields}, verbatim=verbatim)


def grammar_in(fields: Mapping[str, JSON]) -> str | dict[str, JSON] | None:
    """Return the grammar or schema that the fields of a request carry, without the field; None if they carry none."""
    match fields:
        case {"grammar": str(text)} | {"structured_outputs": {"grammar": str(text)}} | {"regex": str(text)}:
            return text
        case {"response_format": {"json_schema": {"schema": dict(found)}}}:
            return found
        case {"response_format": dict(found)} if found.get("type") == "structural_tag":
            return found
    return None


def _encoded_tools(tools: Sequence[Tool]) -> bytes:
    """Encode what a grammar depends on. Descriptions change often and would only fill the cache."""
    return msgspec.json.encode([(tool.name, tool.parameters) for tool in tools])


def _token_limit(request: Request) -> int | None:
    return None if request.max_tokens is None else max(request.max_tokens, 1)


def _document_constraint(spec: _ConstraintSpec, request: Request) -> Constraint | None:
    """Return the constraint of a reply that is a document, or calls if there are tools.

    A server without grammars enforces `response_format` itself; a constraint is only needed to admit calls as well.
    """
    if spec.form in _GRAMMAR_FORMS:
        return _build(spec) or _build(dataclasses.replace(spec, dialect=BARE_JSON))
    if spec.tools == _NO_TOOLS:
        return None
    if spec.form == "json_schema" and is_any_object(requested_schema(request)):
        return Constraint(BARE_JSON, {}, "", covers_all_calls=False)  # a call in bare JSON is an object, too
    return _build(spec) or _build(dataclasses.replace(spec, form="json_schema"))


@functools.lru_cache(maxsize=64)
def _build(spec: _ConstraintSpec) -> Constraint | None:
    match spec.form:
        case "structural_tag":
            return _structural_tag(spec)
        case "json_schema":
            if spec.text:
                return None
            schema = schema_of_calls(spec.tool_list, max_calls=spec.max_calls, document=_decoded(spec.document))
            described = {"name": "reply", "schema": schema}
            return _make_constraint(BARE_JSON, {RESPONSE_FORMAT: {"type": "json_schema", "json_schema": described}})
        case _:
            return _grammar_constraint(spec)


def _structural_tag(spec: _ConstraintSpec) -> Constraint | None:
    """Return one tag with a schema for each tool; where the dialect's calls do not fit this, a grammar of all calls."""
    template = call_template_of(spec.dialect)
    if template is None:
        return None
    marker = call_marker(spec.dialect) if spec.text else ""
    tag = None
    if template.is_json and (marker or not spec.text):
        tag = structural_tag_of_calls(
            template, spec.tool_list, max_calls=spec.max_calls, trigger=marker, document=_decoded(spec.document)
        )
    return _grammar_constraint(spec) if tag is None else _make_constraint(spec.dialect, {RESPONSE_FORMAT: tag})


def _grammar_constraint(spec: _ConstraintSpec) -> Constraint | None:
    grammar = _grammar(dataclasses.replace(spec, tokens=None))
    return None if grammar is None else _constraint_of_grammar(spec, limit_tokens(grammar, spec.tokens))


@functools.lru_cache(maxsize=64)
def _grammar(spec: _ConstraintSpec) -> Grammar | None:
    tools, max_calls, reasoning = spec.tool_list, spec.max_calls, spec.reasoning
    if spec.document:
        document = _decoded(spec.document)
        return grammar_of_document(document, spec.dialect, tools, max_calls=max_calls, reasoning=reasoning)
    return grammar_of_calls(spec.dialect, tools, max_calls=max_calls, text=spec.text, reasoning=reasoning)


def _constraint_of_grammar(spec: _ConstraintSpec, grammar: Grammar) -> Constraint | None:
    marker = call_marker(spec.dialect)
    covers_all_calls = not spec.text or is_unambiguous_marker(marker)
    fields = _grammar_fields(spec.form, grammar)
    if not fields:
        return None
    if spec.lazy:
        triggers = [partial_marker_trigger(marker)] if spec.reasoning is None else spec.reasoning.triggers(marker)
        fields |= lazy_fields(spec.dialect, triggers)
    return _make_constraint(spec.dialect, fields, grammar.notes, covers_all_calls=covers_all_calls, lazy=spec.lazy)


def _grammar_fields(form: Form, grammar: Grammar) -> dict[str, JSON]:
    """Return the request fields that carry a grammar; none if it is too large for the form."""
    match form:
        case "llguidance":
            return {"grammar": f"%llguidance {{}}\n{write_lark(grammar)}"}
        case "guidance":
            return {"structured_outputs": {"grammar": write_lark(grammar)}}
        case "structural_tag":
            form_of_grammar = {"type": "grammar", "grammar": write_gbnf(grammar)}
            return {RESPONSE_FORMAT: {"type": "structural_tag", "format": form_of_grammar}}
        case "regex":
            regex = write_regex(grammar)
            return {} if regex is None else {"regex": regex}
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
    covers_all_calls: bool = True,
    lazy: bool = False,
) -> Constraint:
    key = hashlib.sha256(msgspec.json.encode(fields)).hexdigest()
    return Constraint(dialect, fields, key, notes, covers_all_calls, lazy)
