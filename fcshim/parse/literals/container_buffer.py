"""Buffer of JSON tokens whose container is not decided yet.

Rule: possible keys, and items of brackets that may still be a set, a dict, a tuple or plain parentheses, are buffered;
everything else is written at once.
"""

from collections.abc import Callable

from fcshim.parse.arguments.buffering import LimitError
from fcshim.parse.arguments.tokens import Token, TokenWriter
from fcshim.parse.limits import Limits


class ContainerBuffer:
    """A stack of token lists: `push` opens one, `pop` closes it."""

    def __init__(self, limits: Limits) -> None:
        self._max_size = limits.mend
        self.levels: list[list[Token]] = []
        """One list of tokens for each `push` without its `pop`."""
        self._size = 0

    def clear(self) -> None:
        """Drop all tokens."""
        self.levels.clear()
        self._size = 0

    def add(self, write: Callable[[TokenWriter, str], None], text: str) -> None:
        """Buffer a token. Raises `LimitError` where the buffer is full."""
        self.levels[-1].append((write, text))
        self._size += len(text)
        if self._size > self._max_size:
            raise LimitError(f"more than {self._max_size} characters in a container of unknown kind")

    def push(self) -> None:
        """Begin a list of tokens, which ends with `pop`."""
        self.levels.append([])

    def pop(self) -> list[Token]:
        """Return and remove the tokens since the last `push`."""
        tokens = self.levels.pop()
        self._size -= sum(len(text) for _, text in tokens)
        return tokens


def tokens_to_key(tokens: list[Token]) -> str | None:
    """Return the key that these tokens write, without quotes; None where they are not a string, number or literal."""
    if tokens[0][0] is TokenWriter.open:
        return None
    return "".join(text for write, text in tokens if write in _KEY_TOKENS)


_KEY_TOKENS = frozenset({TokenWriter.write_atom, TokenWriter.write_content})
