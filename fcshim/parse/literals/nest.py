"""Where the reader of a literal notation writes values, some of whose containers show only later what they are.

Rule: a key, and what stands in brackets that may still be a set, a dict, a tuple or nothing, is held until it is known;
all else is written at once.
Neighbours: `arguments.tokens` takes the tokens of strict JSON, `body` writes here.
"""

from collections.abc import Callable

from fcshim.parse.arguments.holding import LimitError
from fcshim.parse.arguments.tokens import Token, TokenWriter
from fcshim.parse.limits import Limits


class Nest:
    """Passes on what is not held."""

    def __init__(self, writer: TokenWriter, limits: Limits) -> None:
        self._writer = writer
        self._most = limits.mend
        self._held: list[list[Token]] = []
        self._size = 0

    @property
    def streams(self) -> bool:
        """True while nothing is held."""
        return not self._held

    def clear(self) -> None:
        """Forget what was not passed on."""
        self._held.clear()
        self._size = 0

    def put(self, write: Callable[[TokenWriter, str], None], text: str) -> None:
        """Write a token, or hold it. Raises what the writer raises, and `LimitError` for too much that is held."""
        if not self._held:
            write(self._writer, text)
            return
        self._held[-1].append((write, text))
        self._size += len(text)
        if self._size > self._most:
            raise LimitError(f"more than {self._most} characters before it is known what they are")

    def hold(self) -> None:
        """Hold what comes, until `take`."""
        self._held.append([])

    def take(self) -> list[Token]:
        """Give what was held since the last `hold`, to be written in its place."""
        tokens = self._held.pop()
        self._size -= sum(len(text) for _, text in tokens)
        return tokens


def as_key(tokens: list[Token]) -> str | None:
    """Give the key that these tokens spell, without its quotes; None where they are no string, number or literal."""
    if tokens[0][0] is TokenWriter.open:
        return None
    return "".join(text for write, text in tokens if write in _SPELLS_KEY)


_SPELLS_KEY = frozenset({TokenWriter.atom, TokenWriter.content})
