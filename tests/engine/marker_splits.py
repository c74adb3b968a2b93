"""The ways in which a vocabulary can write a marker, and the bias that makes a random model write it one of these ways.

Rule: the last token may go on behind the marker, as real tokens do.
Neighbours: `vocabulary` has the tokens; `test_lazy` lets a model stumble into calls.
"""

import random
from collections.abc import Iterator

from gguf import TokenType

from tests.engine.vocabulary import Vocabulary

MOST_TOKENS = 6
"""A model seldom writes more than so many in their order by chance."""
WEIGHT = 6.5
"""Added to the logits of a way's tokens: most of what the model says is made of them, and not all."""


def marker_splits(vocabulary: Vocabulary, marker: str, count: int) -> list[list[int]]:
    """Give so many ways of writing the marker, as lists of tokens, short ones and long ones."""
    pieces = dict(_pieces(vocabulary))
    ways = sorted(_ways(pieces, marker, 0), key=len)
    random.Random(0).shuffle(ways)
    return sorted(ways[:count], key=len)


def bias_to(way: list[int]) -> list[list[float]]:
    """Give the `logit_bias` that makes a model write these tokens."""
    return [[token, WEIGHT] for token in dict.fromkeys(way)]


def _pieces(vocabulary: Vocabulary) -> Iterator[tuple[int, str]]:
    """Give the tokens that are text, of which line ends are written in another way in each kind of vocabulary."""
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
