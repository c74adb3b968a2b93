"""What a strict reader has read: sent on, or held while it is not sure.

Theory of operation. At a firm place all that is held is right, and sent. At a deviation it is withdrawn, as it was
written, to be read in another way from the last firm place on.

Rule: what is held is bounded.
Neighbours: `strict` says where the firm places are, `strings` holds what follows a closing marker in a string.
"""

from fcshim.parse.arguments.mend import Rest
from fcshim.parse.limits import Limits


class NotStrictError(Exception):
    """The text is not strict JSON, and nobody mends it."""


class LimitError(Exception):
    """The value is longer or deeper than it may be."""


class Holding:
    """Sends and holds; a subclass says where text goes (`_into`)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._most_held = limits.mend
        self._rest: Rest = "start"
        self._keys: list[set[str]] = []
        self._new_key: str | None = None
        self._unwanted = False
        """True where the schema does not admit the new key."""
        self._into: list[str] | None = None
        self._held: list[str] = []
        self._held_source: list[str] | None = None
        """What is held as it was written, where that differs: from a closing marker in a string on."""
        self._held_size = 0
        self._token: list[str] = []
        self._paused = False
        self._in_string = False
        self._quote_at = 0

    def _string_ended(self) -> None:
        """Note that a value's string is complete."""

    def _doubt(self) -> None:
        """Note that the schema does not admit what is held."""

    def _hold(self, text: str) -> None:
        self._held.append(text)
        if self._held_source is not None:
            self._held_source.append(text)
        size = self._held_size = self._held_size + len(text)
        if size > self._most_held and not self._paused:
            raise LimitError(f"more than {self._most_held} characters between two values")

    def _stand(self, rest: Rest) -> None:
        """Reach a firm place: what was held is right."""
        if self._in_string:
            self._end_string()
        if self._unwanted:
            self._doubt()
        if self._new_key is not None:
            self._keys[-1].add(self._new_key)
            self._new_key = None
        held = self._held
        if held:
            if self._into is not None:
                self._into += held
            held.clear()
            self._held_source = None
            self._held_size = 0
            self._paused = False
        self._rest = rest

    def _end_string(self) -> None:
        """Send what is held of a string, now that its closing quote is known to be one; a firm place follows."""
        behind_quote = self._quote_at + 1
        if self._into is not None:
            self._into += self._held[:behind_quote]
        del self._held[:behind_quote]
        self._held_source = None
        self._held_size = 0
        self._paused = False
        self._in_string = False
        self._string_ended()

    def _withdraw(self) -> str:
        """Give what is held as it was written, and go back to the last firm place."""
        source = "".join(self._held if self._held_source is None else self._held_source)
        self._held.clear()
        self._held_source = None
        self._token.clear()
        self._held_size = 0
        self._paused = False
        self._new_key = None
        return source
