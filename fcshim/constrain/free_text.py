"""Free text up to a marker, and a constrained rest after it.

Theory of operation. If the first character of a marker does not occur again in it, the search automaton of the marker
is simple: in every state but the start, that character leads to the state of length one, and every other character that
does not continue the marker leads to the start. So text without the marker is one repetition, without recursive rules.
Each further character of the marker is a rule of its own, so that a sampler keeps one state open, and a parser of the
grammar does not nest.
Rule: every text without the marker is admitted, and whatever follows the marker is `rest` up to the end.
"""

from fcshim.constrain.grammar import Chars, Expression, LiteralText, Repeat, choice, optional, series
from fcshim.constrain.rules import Rules

_MAX_CODE_POINT = 0x10FFFF


def free_text(marker: str, rest: Expression, rules: Rules) -> Expression | None:
    """Admit text without the marker, or such text, then the marker and `rest`; None for an ambiguous marker."""
    if not is_unambiguous_marker(marker):
        return None
    first = LiteralText(marker[0])
    partial: Expression = LiteralText("")  # the proper prefixes of the marker, without its first character
    for char in reversed(marker[1:-1]):
        partial = rules.share(optional(series(LiteralText(char), partial)))
    failed: Expression = _none_of(marker[0] + marker[-1])  # up to the first character that breaks the marker off
    for char in reversed(marker[1:-1]):
        failed = rules.share(choice([_none_of(marker[0] + char), series(LiteralText(char), failed)]))
    restarts = series(first, Repeat(series(partial, first), 0, None))
    unmarked = choice([_none_of(marker[0]), series(restarts, failed)])
    end = series(restarts, choice([series(LiteralText(marker[1:]), rest), partial]))
    return series(Repeat(unmarked, 0, None), optional(end))


def is_unambiguous_marker(marker: str) -> bool:
    """Return whether `free_text` can search for this marker: its first character must not occur in it again."""
    return len(marker) > 1 and marker[0] not in marker[1:]


def text_not_starting_with(first: str) -> Expression:
    """Admit any text, except the empty one, that does not start with this character."""
    return series(_none_of(first), Repeat(Chars(((0, _MAX_CODE_POINT),)), 0, None))


def _none_of(characters: str) -> Chars:
    ranges: list[tuple[int, int]] = []
    low = 0
    for point in sorted(set(map(ord, characters))):
        ranges += [(low, point - 1)] if low < point else []
        low = point + 1
    return Chars((*ranges, (low, _MAX_CODE_POINT)))
