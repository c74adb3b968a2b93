"""Samples random texts of a grammar directly from its expressions.

Rule: every written form of the grammar must admit the samples. Repetition counts are mostly small, sometimes maximal.
The sampler never repeats a key that the schema does not name: a grammar cannot exclude that.
"""

import random
from collections.abc import Iterator

from fcshim.constrain.grammar import (
    ROOT,
    Alternation,
    Chars,
    Expression,
    Grammar,
    LiteralText,
    Repeat,
    RuleRef,
    Series,
    repeat_limit,
)

_ODD = [0x22, 0x5C, 0x7F, 0xA0, 0x2028, 0xFEFF, 0x1F600, 0x3C, 0x7B, 0x7D]


def sample(grammar: Grammar, seed: int) -> str:
    """Return one text."""
    return "".join(_Sampler(grammar, random.Random(seed)).pieces(grammar.rules[ROOT]))


class _Sampler:
    def __init__(self, grammar: Grammar, chance: random.Random) -> None:
        self._grammar = grammar
        self._chance = chance
        self._room = 400  # repetitions; after these everything is as short as possible
        self._keys: set[str] = set()

    def pieces(self, part: Expression) -> Iterator[str]:
        waiting = [part]
        while waiting:
            match waiting.pop():
                case LiteralText(text):
                    yield text
                case Chars() as part:
                    yield self._char(part)
                case Series(parts):
                    waiting += reversed(parts)
                case Alternation(options):
                    waiting.append(self._chance.choice(options))
                case Repeat() as part:
                    waiting += [part.part] * self._count(part)
                case RuleRef(name) if name.endswith("-key"):
                    yield self._new_key(self._grammar.rules[name])
                case RuleRef(name):
                    waiting.append(self._grammar.rules[name])

    def _new_key(self, part: Expression) -> str:
        key = "".join(self.pieces(part))
        while key in self._keys:
            key = "".join(self.pieces(part))
        self._keys.add(key)
        return key

    def _char(self, part: Chars) -> str:
        odd = [point for point in _ODD if any(low <= point <= high for low, high in part.ranges)]
        if odd and self._chance.random() < 0.2:
            return chr(self._chance.choice(odd))
        low, high = self._chance.choice(part.ranges)
        return chr(self._chance.randint(low, high))

    def _count(self, part: Repeat) -> int:
        maximum = repeat_limit(part, self._grammar.limits)
        maximum = part.minimum + 5 if maximum is None else maximum
        if self._room <= 0:
            return part.minimum
        few = min(part.minimum + self._chance.choice([0, 0, 1, 1, 2, 3, 5, 12]), maximum)
        count = maximum if self._chance.random() < 0.05 and maximum <= 40 else few
        self._room -= count - part.minimum
        return count
