"""The grammar of a reply: calls of offered tools in a dialect, and nothing else, or text or a document instead.

Rule: what stands around the arguments is the dialect's own (`frames`), what stands inside is the tool's schema.
Neighbours: `values` writes arguments and documents, `prose` text; `constraint` picks the writer for an upstream.
"""

from collections.abc import Sequence

from fcshim.constrain.frames import Frames, frames_of
from fcshim.constrain.grammar import (
    EMPTY,
    ROOT,
    Expression,
    Grammar,
    Limits,
    Repeat,
    Series,
    Text,
    choice,
    one_of_texts,
    series,
)
from fcshim.constrain.notation import Notation
from fcshim.constrain.prose import prose, text_that_begins_otherwise
from fcshim.constrain.rules import Rules
from fcshim.constrain.thoughts import Thoughts
from fcshim.constrain.values import arguments, document
from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.parse.dialect import Dialect

_ROOMY = Limits(characters=32_768, items=512, further=7)
"""For replies that are documents. Whoever wants one counts on all of it, and on being told where tokens run out."""


def grammar_of_calls(
    dialect: Dialect,
    tools: Sequence[Tool],
    *,
    parallel: bool = True,
    text: bool = False,
    thoughts: Thoughts | None = None,
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
        marker = marker_of(dialect)
        within = prose(marker, _behind(calls, marker), rules) if marker else None
        if within is not None and thoughts is not None:
            within = thoughts.before_text(within, rules)
        first = frames_of(dialect)
        assert first is not None
        calls = within or choice([calls, text_that_begins_otherwise(first.first[0])])
    elif thoughts is not None:
        calls = series(thoughts.expression(rules), calls)
    return Grammar({**rules.rules, ROOT: calls}, tuple(rules.notes))


def grammar_of_document(
    schema: JSON,
    dialect: Dialect,
    tools: Sequence[Tool] = (),
    *,
    parallel: bool = True,
    thoughts: Thoughts | None = None,
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
    before = EMPTY if thoughts is None else thoughts.expression(rules)
    return Grammar({**rules.rules, ROOT: series(before, choice(options))}, tuple(rules.notes), _ROOMY)


def marker_of(dialect: Dialect) -> str:
    """Give the marker with which calls of this dialect begin wherever they stand, as its templates write it.

    "" where it has none, or one that is easily meant as text.
    """
    frames = None if dialect.bare else frames_of(dialect)
    markers = [dialect.section_open, dialect.open]
    return next((each for each in markers if each and frames is not None and frames.first.startswith(each)), "")


def _calls(dialect: Dialect, tools: Sequence[Tool], rules: Rules, *, parallel: bool) -> Expression | None:
    frames = frames_of(dialect)
    if frames is None or not tools:
        return None
    written = {tool.name: rules.share(_arguments(tool, rules, frames.notation)) for tool in tools}
    return series(_call(frames, 0, written), *_further(frames, written, parallel=parallel), Text(frames.end))


def _behind(calls: Expression, marker: str) -> Expression:
    """Give what follows the marker with which calls begin."""
    first, *rest = calls.parts if isinstance(calls, Series) else (calls,)
    assert isinstance(first, Text)
    return series(Text(first.text.removeprefix(marker)), *rest)


def _arguments(tool: Tool, rules: Rules, notation: Notation) -> Expression:
    known = set(rules.notes)
    found = arguments(tool.parameters, rules, notation)
    for note in [note for note in rules.notes if note not in known and not note.startswith("tool ")]:
        del rules.notes[note]
        rules.note(f"tool {tool.name!r:.80}: {note}")
    return found


def _further(frames: Frames, written: dict[str, Expression], *, parallel: bool) -> list[Expression]:
    """Give the calls after the first."""
    if not parallel or not frames.more:
        return []
    if len(set(frames.more)) == 1:
        return [Repeat(_call(frames, 1, written), 0, len(frames.more), "further")]
    tail: Expression = Text("")
    for at in range(len(frames.more), 0, -1):
        tail = Repeat(series(_call(frames, at, written), tail), 0, 1, "further", at - 1)
    return [tail]


def _call(frames: Frames, at: int, written: dict[str, Expression]) -> Expression:
    head = frames.head(at)
    named = [(frames.behind(at, name), rule) for name, rule in written.items()]
    return series(Text(head), one_of_texts(named))
