"""Keys that a schema leaves free, in kinds that have no key in common: so that none comes twice in one object.

Theory of operation. No grammar can compare a key with those before it. But keys of different kinds, told by their first
character, are different; an object with one key of each kind at most has none twice, in whatever order they come. A
grammar then counts kinds, not keys: six of them make 64 sets.

Rule: every character begins a key of exactly one kind; neighbouring letters are of different ones.
Neighbours: `notation` writes the keys, `containers` the objects.
"""

import functools

from fcshim.constrain.grammar import Ranges, without

KINDS = 6
"""Twice as many sets for one more."""
_BLOCKS = ((0xA0, 0x7FF), (0x1000, 0x9FFF))
"""Characters that are told apart by where in their block they stand: one by one there would be too many."""


@functools.lru_cache(maxsize=256)
def of_kind(ranges: Ranges, kind: int) -> Ranges:
    """Give those characters of `ranges` with which a key of this kind begins."""
    others: list[int | tuple[int, int]] = [point for point in range(0xA0) if point % KINDS != kind]
    for low, high in _BLOCKS:
        size = -(-(high + 1 - low) // KINDS)
        others += [(low + at * size, min(low + (at + 1) * size - 1, high)) for at in range(KINDS) if at != kind]
    if kind:
        others += [(0x800, 0xFFF), (0xA000, 0x10FFFF)]
    return without(ranges, others)
