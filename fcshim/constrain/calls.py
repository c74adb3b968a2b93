"""The grammar of a reply: calls of offered tools in a dialect, and nothing else, or text instead.

Rule: what stands around the arguments is the dialect's own (`frames`), what stands inside is the tool's schema.
Neighbours: `values` writes arguments; `constraint` picks the writer for an upstream.
"""

from collections.abc import Sequence

from fcshim.constrain.frames import Frames, frames_of
from fcshim.constrain.grammar import ROOT, Chars, Expression, Grammar, Repeat, Text, choice, one_of_texts, series
from fcshim.constrain.notation import Notation
from fcshim.constrain.rules import Rules
from fcshim.constrain.values import arguments
from fcshim.messages import Tool
from fcshim.parse.dialect import Dialect

_HIGHEST = 0x10FFFF


def grammar_of_calls(
    dialect: Dialect, tools: Sequence[Tool], *, parallel: bool = True, text: bool = False
) -> Grammar | None:
    """Give the grammar of replies that call, with `text` also of those that begin otherwise.

    None for a dialect whose calls have no grammar here, and where there is no tool to call.
    """
    frames = frames_of(dialect)
    if frames is None or not tools:
        return None
    rules = Rules()
    written = {tool.name: rules.share(_arguments(tool, rules, frames.notation)) for tool in tools}
    calls = series(_call(frames, 0, written), *_further(frames, written, parallel=parallel), Text(frames.end))
    root = choice([calls, _text(frames.first[0])]) if text else calls
    return Grammar({**rules.rules, ROOT: root}, tuple(rules.notes))


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


def _text(first: str) -> Expression:
    """Admit a reply that does not begin as a call does."""
    others = Chars(((0, ord(first) - 1), (ord(first) + 1, _HIGHEST)))
    return series(others, Repeat(Chars(((0, _HIGHEST),)), 0, None))
