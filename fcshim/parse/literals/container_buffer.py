"""What a reader of a literal notation cannot write yet, since some containers show only later what they are.

Rule: a key, and what stands in brackets that may still be a set, a dict, a tuple or nothing, is held until it is known;
all else is written at once.
Neighbours: `arguments.tokens` takes the tokens of strict JSON, `calls` asks here what waits.
"""

from collections.abc import Callable

from fcshim.parse.arguments.buffering import LimitError
from fcshim.parse.arguments.tokens import Token, TokenWriter
from fcshim.parse.limits import Limits


class ContainerBuffer:
    """Keeps what is held."""

    def __init__(self, limits: Limits) -> None:
        self._max_size = limits.mend
        self.levels: list[list[Token]] = []
        """What is held, since each `hold` that nothing has taken yet."""
        self._size = 0

    def clear(self) -> None:
        """Forget what is held."""
        self.levels.clear()
        self._size = 0

    def add(self, write: Callable[[TokenWriter, str], None], text: str) -> None:
        """Hold a token. Raises `LimitError` for too much."""
        self.levels[-1].append((write, text))
        self._size += len(text)
        if self._size > self._max_size:
            raise LimitError(f"more than {self._max_size} characters before it is known what they are")

    def push(self) -> None:
        """Hold what comes, until `take`."""
        self.levels.append([])

    def pop(self) -> list[Token]:
        """Give what was held since the last `hold`, to be written in its place."""
        tokens = self.levels.pop()
        self._size -= sum(len(text) for _, text in tokens)
        return tokens


def tokens_to_key(tokens: list[Token]) -> str | None:
    """Give the key that these tokens spell, without its quotes; None where they are no string, number or literal."""
    if tokens[0][0] is TokenWriter.open:
        return None
    return "".join(text for write, text in tokens if write in _KEY_TOKENS)


_KEY_TOKENS = frozenset({TokenWriter.write_atom, TokenWriter.write_content})
