"""Text in which a marker opens what follows: whatever is written before it, the marker is never text.

Theory of operation. With a marker whose first character does not come again in it, a search for it knows two kinds of
places only: behind nothing of it, and behind a beginning of it, from where that first character leads back to the
beginning of length one. So one repetition of what is no marker says all there is, without rules that lead back. Each
further character of the marker has a rule of its own: a sampler keeps one state open, and no reader nests them.
Rule: every text is admitted, and what stands behind the marker is `rest` to the end.
Neighbours: `calls` puts its calls behind a marker.
"""

from fcshim.constrain.grammar import Chars, Expression, LiteralText, Repeat, choice, optional, series
from fcshim.constrain.rules import Rules

_MAX_CODE_POINT = 0x10FFFF


def free_text(marker: str, rest: Expression, rules: Rules) -> Expression | None:
    """Admit text, and text with the marker and `rest` at its end; None for a marker that cannot be told so."""
    if not is_unambiguous_marker(marker):
        return None
    first = LiteralText(marker[0])
    begun = _partial_marker(marker, rules)
    again = series(first, Repeat(series(begun, first), 0, None))
    unmarked = choice([_none_of(marker[0]), series(again, _failed_marker(marker, rules))])
    ends = series(again, choice([series(LiteralText(marker[1:]), rest), begun]))
    return series(Repeat(unmarked, 0, None), optional(ends))


def is_unambiguous_marker(marker: str) -> bool:
    """Tell whether text with this marker at its end can be told from all other text."""
    return len(marker) > 1 and marker[0] not in marker[1:]


def text_not_starting_with(first: str) -> Expression:
    """Admit text that does not begin with this character, and whatever follows."""
    return series(_none_of(first), Repeat(Chars(((0, _MAX_CODE_POINT),)), 0, None))


def _partial_marker(marker: str, rules: Rules) -> Expression:
    """Admit what may follow the first character without making the marker whole, nothing too."""
    begun: Expression = LiteralText("")
    for char in reversed(marker[1:-1]):
        begun = rules.share(optional(series(LiteralText(char), begun)))
    return begun


def _failed_marker(marker: str, rules: Rules) -> Expression:
    """Admit what follows the first character up to one with which it is clear that this is no marker."""
    left: Expression = _none_of(marker[0] + marker[-1])
    for char in reversed(marker[1:-1]):
        left = rules.share(choice([_none_of(marker[0] + char), series(LiteralText(char), left)]))
    return left


def _none_of(characters: str) -> Chars:
    ranges: list[tuple[int, int]] = []
    low = 0
    for point in sorted(set(map(ord, characters))):
        ranges += [(low, point - 1)] if low < point else []
        low = point + 1
    return Chars((*ranges, (low, _MAX_CODE_POINT)))
