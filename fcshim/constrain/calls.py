"""The grammar of a reply: calls of the offered tools in a dialect, alone or with free text or a JSON document.

Rule: the text around the arguments comes from the dialect's call template, the arguments from the tool's schema.
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
    if calls is None:
        return None
    if text:
        marker = call_marker(dialect)
        with_calls = free_text(marker, _after_marker(calls, marker), rules) if marker else None
        if with_calls is not None and reasoning is not None:
            with_calls = reasoning.before_text(with_calls, rules)
        template = call_template_of(dialect)
        assert template is not None
        if not template.before_name(0):
            return None  # any text may be the beginning of a name
        calls = with_calls or choice([calls, text_not_starting_with(template.opening[0])])
    elif reasoning is not None:
        calls = series(reasoning.expression(rules), calls)
    return Grammar({**rules.rules, ROOT: calls}, tuple(rules.notes))


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


def _after_marker(calls: Expression, marker: str) -> Expression:
    """Take the start marker off the expression of calls."""
    first, *rest = calls.parts if isinstance(calls, Series) else (calls,)
    assert isinstance(first, LiteralText)
    return series(LiteralText(first.text.removeprefix(marker)), *rest)


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
