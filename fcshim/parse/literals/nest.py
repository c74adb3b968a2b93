"""Where the reader of a literal notation writes values, some of whose containers show only later what they are.

Rule: a key, and what stands in brackets that may still be a set, a dict, a tuple or nothing, is held until it is known;
all else goes on with the next `flush`.
Neighbours: `arguments.writer` takes the strict JSON, `body` writes here.
"""

from fcshim.parse.arguments.holding import LimitError
from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.limits import Limits


class Nest:
    """Collects strict JSON, and passes on what is not held."""

    def __init__(self, writer: ArgumentWriter, limits: Limits) -> None:
        self._writer = writer
        self._most = limits.mend
        self._ready: list[str] = []
        self._into = self._ready
        self._held: list[list[str]] = []
        self._size = 0

    @property
    def streams(self) -> bool:
        """True while nothing is held."""
        return not self._held

    def clear(self) -> None:
        """Forget what was not passed on."""
        self._ready.clear()
        self._held.clear()
        self._into = self._ready
        self._size = 0

    def write(self, text: str) -> None:
        """Write a piece of strict JSON. Raises `LimitError` for too much that is held."""
        self._into.append(text)
        if self._held:
            self._size += len(text)
            if self._size > self._most:
                raise LimitError(f"more than {self._most} characters before it is known what they are")

    def flush(self) -> None:
        """Pass on what is not held. Raises what the writer raises."""
        if self._ready:
            text = "".join(self._ready)
            self._ready.clear()
            self._writer.write(text)

    def hold(self) -> None:
        """Hold what comes, until `take`."""
        self._into = []
        self._held.append(self._into)

    def take(self) -> str:
        """Give what was held since the last `hold`, to be written in its place."""
        text = "".join(self._held.pop())
        self._into = self._held[-1] if self._held else self._ready
        self._size -= len(text)
        return text
