"""What a reply consists of: calls of the offered tools in a dialect, alone or with free text or a JSON document.

It is described as a grammar, or as a JSON Schema or structural tag for servers that take these instead.

Rule: the text around the arguments comes from the dialect's call template, the arguments from the tool's schema. A
schema or tag has the tool's schema unchanged, except that its references are rebased to its new place.
"""

from collections.abc import Sequence

from fcshim.constrain.call_template import MAX_CALLS, CallTemplate, call_template_of
from fcshim.constrain.free_text import free_text, text_not_starting_with
from fcshim.constrain.grammar import (
    EMPTY,
    ROOT,
    Expression,
    Grammar,
    GrammarLimits,
    LiteralText,
    Repeat,
    Series,
    choice,
    one_of_texts,
    series,
)
from fcshim.constrain.reasoning import ReasoningSyntax
from fcshim.constrain.rules import Rules
from fcshim.constrain.value_syntax import ValueSyntax
from fcshim.constrain.values import arguments, document
from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.parse.dialect import Dialect
from fcshim.schema.providers import as_object

_DOCUMENT_LIMITS = GrammarLimits(characters=32_768, items=512, further_calls=7)
"""Limits of replies that may be a document. The client needs all of it, and the stop reason shows whether it was cut
off.
"""


def grammar_of_calls(
    dialect: Dialect,
    tools: Sequence[Tool],
    *,
    max_calls: int = MAX_CALLS,
    text: bool = False,
    reasoning: ReasoningSyntax | None = None,
) -> Grammar | None:
    """Return the grammar of replies that consist of calls; with `text`, also of free text that may end with calls.

    There are at most `max_calls`. `reasoning` comes first, if its tag is open already, or may come first. In a dialect
    without a start marker, a reply is either calls from its first character on, or text that starts with another
    character. None for a dialect without a call template, without tools, and with `text` where a tool's name opens a
    call.
    """
    rules = Rules()
    calls = _calls(dialect, tools, rules, max_calls=max_calls)
    if calls is not None and text:
        calls = _text_or_calls(dialect, calls, rules, reasoning)
    elif calls is not None and reasoning is not None:
        calls = series(reasoning.expression(rules), calls)
    return None if calls is None else Grammar({**rules.rules, ROOT: calls}, tuple(rules.notes))


def grammar_of_document(
    schema: JSON,
    dialect: Dialect,
    tools: Sequence[Tool] = (),
    *,
    max_calls: int = MAX_CALLS,
    reasoning: ReasoningSyntax | None = None,
) -> Grammar | None:
    """Return the grammar of replies that are JSON valid against the schema, or calls if there are tools.

    `reasoning` is as in `grammar_of_calls`. None if there are tools and the dialect has no call template.
    """
    rules = Rules()
    options = [document(schema, rules)]
    if tools:
        calls = _calls(dialect, tools, rules, max_calls=max_calls)
        if calls is None:
            return None
        options.append(calls)
    before = EMPTY if reasoning is None else reasoning.expression(rules)
    return Grammar({**rules.rules, ROOT: series(before, choice(options))}, tuple(rules.notes), _DOCUMENT_LIMITS)


def schema_of_calls(tools: Sequence[Tool], *, max_calls: int, document: JSON = None) -> dict[str, JSON]:
    """Return the schema of a reply that is a call, an object with `name` and `arguments`.

    If `max_calls` is more than one, it is an array of calls. With `document`, a schema, the reply may be such a
    document instead.
    """
    schemas = enumerate(as_object(tool.parameters) for tool in tools)
    definitions = {f"tool{at}": _rebased(schema, f"#/$defs/tool{at}") for at, schema in schemas}
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": {"$ref": f"#/$defs/tool{at}"}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for at, tool in enumerate(tools)
    ]
    call: dict[str, JSON] = calls[0] if len(calls) == 1 else {"anyOf": calls}
    several = {"type": "array", "items": call, "minItems": 1, "maxItems": max_calls}
    reply = several if max_calls > 1 else call
    if document is not None:
        definitions["document"] = _rebased(document, "#/$defs/document")
        reply = {"anyOf": [{"$ref": "#/$defs/document"}, reply]}
    return {**reply, "$defs": definitions}


def structural_tag_of_calls(
    template: CallTemplate, tools: Sequence[Tool], *, max_calls: int, trigger: str = "", document: JSON = None
) -> dict[str, JSON] | None:
    """Return the structural tag of a reply that consists of calls; None where calls share one pair of markers.

    Each call is a tag of its own, from start marker to end marker. With `trigger`, a common prefix of the tags, free
    text is allowed around calls; with `document`, a schema, the reply may be such a document instead.
    """
    if template.closing and template.separators and not template.separators[0].startswith(template.closing):
        return None
    tags = [
        {
            "type": "tag",
            "begin": template.before_name(0) + template.name_to_arguments(0, tool.name),
            "content": {"type": "json_schema", "json_schema": as_object(tool.parameters)},
            "end": template.closing,
        }
        for tool in tools
    ]
    last: dict[str, JSON] = {"stop_after_first": max_calls == 1}
    if trigger:
        return _tag({"type": "triggered_tags", "triggers": [trigger], "tags": tags, **last})
    rest = template.separators[0][len(template.closing) :] if template.separators else template.opening
    separator = rest[: len(rest) - len(template.opening)] if rest.endswith(template.opening) else ""
    calls = {"type": "tags_with_separator", "tags": tags, "separator": separator, "at_least_one": True, **last}
    if document is None:
        return _tag(calls)
    return _tag({"type": "or", "elements": [{"type": "json_schema", "json_schema": document}, calls]})


def call_marker(dialect: Dialect) -> str:
    """Return the start marker of calls as the dialect's templates write it: of the section of calls, or of a call.

    Empty where the dialect has none, or is bare: its calls then begin with characters that are common in text.
    """
    template = None if dialect.bare else call_template_of(dialect)
    markers = [dialect.section.open, dialect.call.open]
    return next((each for each in markers if each and template is not None and template.opening.startswith(each)), "")


def _calls(dialect: Dialect, tools: Sequence[Tool], rules: Rules, *, max_calls: int) -> Expression | None:
    template = call_template_of(dialect)
    if template is None or not tools:
        return None
    written = {tool.name: rules.share(_arguments(tool, rules, template.syntax)) for tool in tools}
    return series(
        _call(template, 0, written),
        *_further_calls(template, written, max_calls=max_calls),
        LiteralText(template.closing),
    )


def _text_or_calls(
    dialect: Dialect, calls: Expression, rules: Rules, reasoning: ReasoningSyntax | None
) -> Expression | None:
    """Admit free text that may end with calls, or else calls or text; None where any text may begin a tool's name."""
    marker, template = call_marker(dialect), call_template_of(dialect)
    assert template is not None
    if not template.before_name(0):
        return None
    if marker:
        # The marker ends the free text, so it is taken off the calls.
        first, *rest = calls.parts if isinstance(calls, Series) else (calls,)
        assert isinstance(first, LiteralText)
        found = free_text(marker, series(LiteralText(first.text.removeprefix(marker)), *rest), rules)
        if found is not None:
            return found if reasoning is None else reasoning.before_text(found, rules)
    return choice([calls, text_not_starting_with(template.opening[0])])


def _arguments(tool: Tool, rules: Rules, syntax: ValueSyntax) -> Expression:
    """Return the arguments of a tool, and put its name before the notes that its schema adds."""
    known = set(rules.notes)
    found = arguments(tool.parameters, rules, syntax)
    for note in [note for note in rules.notes if note not in known and not note.startswith("tool ")]:
        del rules.notes[note]
        rules.note(f"tool {tool.name!r:.80}: {note}")
    return found


def _further_calls(template: CallTemplate, written: dict[str, Expression], *, max_calls: int) -> list[Expression]:
    """Return the calls after the first."""
    count = min(max_calls - 1, len(template.separators))
    if not count:
        return []
    if len(set(template.separators)) == 1:
        return [Repeat(_call(template, 1, written), 0, count, "further_calls")]
    # Some dialects number their calls, so that each separator differs: the calls nest, each only after the one before.
    tail: Expression = LiteralText("")
    for at in range(count, 0, -1):
        tail = Repeat(series(_call(template, at, written), tail), 0, 1, "further_calls", at - 1)
    return [tail]


def _call(template: CallTemplate, at: int, written: dict[str, Expression]) -> Expression:
    head = template.before_name(at)
    named = [(template.name_to_arguments(at, name), rule) for name, rule in written.items()]
    return series(LiteralText(head), one_of_texts(named))


def _tag(form: dict[str, JSON]) -> dict[str, JSON]:
    return {"type": "structural_tag", "format": form}


def _rebased(value: JSON, pointer: str) -> JSON:
    """Rebase the local references of a schema to `pointer`, its new place; remote references and ids are dropped."""
    if isinstance(value, list):
        return [_rebased(inner, pointer) for inner in value]
    if not isinstance(value, dict):
        return value
    rebased = {key: _rebased(inner, pointer) for key, inner in value.items() if key not in _IDENTITY_KEYWORDS}
    reference = value.get("$ref")
    if isinstance(reference, str):
        return {**rebased, "$ref": pointer + reference[1:]} if reference.startswith("#") else rebased
    return rebased if reference is None else {**rebased, "$ref": _rebased(reference, pointer)}


_IDENTITY_KEYWORDS = frozenset({"$ref", "$id", "$schema"})
