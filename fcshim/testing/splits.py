"""How a text is cut into the pieces of a stream.

Rule: a parser must read the same from every split, because a model server cuts anywhere.
"""

import itertools
import random
from collections.abc import Iterator


def splits(text: str, source: random.Random, *, count: int = 3) -> Iterator[list[str]]:
    """Cut a text into characters, into pieces of four, into two, and at random places (with empty pieces)."""
    yield list(text)
    yield [text[at : at + 4] for at in range(0, len(text), 4)]
    middle = source.randint(0, len(text))
    yield [text[:middle], text[middle:]]
    for _ in range(count):
        yield random_split(text, source)


def random_split(text: str, source: random.Random) -> list[str]:
    """Cut a text at random places, some of them twice."""
    cuts = sorted(source.randint(0, len(text)) for _ in range(source.randint(0, max(1, len(text) // 3))))
    return [text[start:end] for start, end in itertools.pairwise([0, *cuts, len(text)])]
