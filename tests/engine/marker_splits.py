"""The token sequences that write a marker, and the logit bias that makes a random model write one of them.

Rule: the last token may extend beyond the marker, as tokens of real models do.
"""

import random
from collections.abc import Iterator

from gguf import TokenType

from tests.engine.vocabulary import Vocabulary

MOST_TOKENS = 6
"""A random model seldom writes a longer sequence in order."""
WEIGHT = 6.5
"""Added to the logits of a sequence's tokens: the model's text then consists mostly, but not only, of them."""


def marker_splits(vocabulary: Vocabulary, marker: str, count: int) -> list[list[int]]:
    """Return `count` token sequences that write the marker, short ones and long ones."""
    pieces = dict(_pieces(vocabulary))
    ways = sorted(_ways(pieces, marker, 0), key=len)
    random.Random(0).shuffle(ways)
    return sorted(ways[:count], key=len)


def bias_to(way: list[int]) -> list[list[float]]:
    """Return the `logit_bias` that favours these tokens."""
    return [[token, WEIGHT] for token in dict.fromkeys(way)]


def _pieces(vocabulary: Vocabulary) -> Iterator[tuple[int, str]]:
    """Return the text of each text token; each kind of vocabulary spells spaces and line ends in its own way."""
    for number, token in enumerate(vocabulary.tokens):
        if token.type == TokenType.NORMAL:
            yield number, token.text.decode("utf-8", "replace").replace("\u2581", " ").replace("\u010a", "\n")


def _ways(pieces: dict[int, str], marker: str, at: int, before: tuple[int, ...] = ()) -> Iterator[list[int]]:
    if at >= len(marker):
        yield list(before)
    elif len(before) < MOST_TOKENS:
        rest = marker[at:]
        for number, text in pieces.items():
            if rest.startswith(text) or text.startswith(rest):
                yield from _ways(pieces, marker, at + len(text), (*before, number))
