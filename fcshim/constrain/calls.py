"""The grammar of a reply: calls of offered tools in a dialect, and nothing else, or text or a document instead.

Rule: what stands around the arguments is the dialect's own (`frames`), what stands inside is the tool's schema.
Neighbours: `values` writes arguments and documents, `prose` text; `constraint` picks the writer for an upstream.
"""

from collections.abc import Sequence

from fcshim.constrain.call_template import CallTemplate, call_template_of
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

_DOCUMENT_LIMITS = GrammarLimits(characters=32_768, items=512, further=7)
"""For replies that are documents. Whoever wants one counts on all of it, and on being told where tokens run out."""


def grammar_of_calls(
    dialect: Dialect,
    tools: Sequence[Tool],
    *,
    parallel: bool = True,
    text: bool = False,
    reasoning: ReasoningSyntax | None = None,
) -> Grammar | None:
    """Give the grammar of replies that call, with `text` also of text, which goes up to the first call.

    `thoughts` may, or must, stand before either. In a dialect without an opening marker, a call can only be told where
    the reply begins with one. None for a dialect whose calls have no grammar here, and where there is no tool to call.
    """
    rules = Rules()
    calls = _calls(dialect, tools, rules, parallel=parallel)
    if calls is None:
        return None
    if text:
        marker = call_marker(dialect)
        within = free_text(marker, _after_marker(calls, marker), rules) if marker else None
        if within is not None and reasoning is not None:
            within = reasoning.before_text(within, rules)
        first = call_template_of(dialect)
        assert first is not None
        calls = within or choice([calls, text_not_starting_with(first.opening[0])])
    elif reasoning is not None:
        calls = series(reasoning.expression(rules), calls)
    return Grammar({**rules.rules, ROOT: calls}, tuple(rules.notes))


def grammar_of_document(
    schema: JSON,
    dialect: Dialect,
    tools: Sequence[Tool] = (),
    *,
    parallel: bool = True,
    reasoning: ReasoningSyntax | None = None,
) -> Grammar | None:
    """Give the grammar of replies that are JSON as the schema has it, or calls where there are tools.

    `thoughts` may, or must, stand before either. None for a dialect whose calls have no grammar here.
    """
    rules = Rules()
    options = [document(schema, rules)]
    if tools:
        calls = _calls(dialect, tools, rules, parallel=parallel)
        if calls is None:
            return None
        options.append(calls)
    before = EMPTY if reasoning is None else reasoning.expression(rules)
    return Grammar({**rules.rules, ROOT: series(before, choice(options))}, tuple(rules.notes), _DOCUMENT_LIMITS)


def call_marker(dialect: Dialect) -> str:
    """Give the marker with which calls of this dialect begin wherever they stand, as its templates write it.

    "" where it has none, or one that is easily meant as text.
    """
    frames = None if dialect.bare else call_template_of(dialect)
    markers = [dialect.section_open, dialect.open]
    return next((each for each in markers if each and frames is not None and frames.opening.startswith(each)), "")


def _calls(dialect: Dialect, tools: Sequence[Tool], rules: Rules, *, parallel: bool) -> Expression | None:
    frames = call_template_of(dialect)
    if frames is None or not tools:
        return None
    written = {tool.name: rules.share(_arguments(tool, rules, frames.syntax)) for tool in tools}
    return series(
        _call(frames, 0, written), *_further_calls(frames, written, parallel=parallel), LiteralText(frames.closing)
    )


def _after_marker(calls: Expression, marker: str) -> Expression:
    """Give what follows the marker with which calls begin."""
    first, *rest = calls.parts if isinstance(calls, Series) else (calls,)
    assert isinstance(first, LiteralText)
    return series(LiteralText(first.text.removeprefix(marker)), *rest)


def _arguments(tool: Tool, rules: Rules, syntax: ValueSyntax) -> Expression:
    known = set(rules.notes)
    found = arguments(tool.parameters, rules, syntax)
    for note in [note for note in rules.notes if note not in known and not note.startswith("tool ")]:
        del rules.notes[note]
        rules.note(f"tool {tool.name!r:.80}: {note}")
    return found


def _further_calls(template: CallTemplate, written: dict[str, Expression], *, parallel: bool) -> list[Expression]:
    """Give the calls after the first."""
    if not parallel or not template.separators:
        return []
    if len(set(template.separators)) == 1:
        return [Repeat(_call(template, 1, written), 0, len(template.separators), "further")]
    tail: Expression = LiteralText("")
    for at in range(len(template.separators), 0, -1):
        tail = Repeat(series(_call(template, at, written), tail), 0, 1, "further", at - 1)
    return [tail]


def _call(template: CallTemplate, at: int, written: dict[str, Expression]) -> Expression:
    head = template.before_name(at)
    named = [(template.name_to_arguments(at, name), rule) for name, rule in written.items()]
    return series(LiteralText(head), one_of_texts(named))
