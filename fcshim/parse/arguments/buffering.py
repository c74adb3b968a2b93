"""What a strict reader has read: sent on, or held while it is not sure.

Theory of operation. At a firm place all that is held is right, and sent. At a deviation it is withdrawn, as it was
written, to be read in another way from the last firm place on.

Rule: what is held is bounded.
Neighbours: `strict` says where the firm places are, `strings` holds what follows a closing marker in a string.
"""

from fcshim.parse.arguments.repair import CommitPoint
from fcshim.parse.limits import Limits


class NotStrictError(Exception):
    """The text is not strict JSON, and nobody mends it."""


class LimitError(Exception):
    """The value is longer or deeper than it may be."""


class CommitBuffer:
    """Sends and holds; a subclass says where text goes (`_into`)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._max_buffered = limits.mend
        self._commit_point: CommitPoint = "start"
        self._keys: list[set[str]] = []
        self._pending_key: str | None = None
        self._unexpected_key = False
        """True where the schema does not admit the new key."""
        self._target: list[str] | None = None
        self._buffer: list[str] = []
        self._buffer_source: list[str] | None = None
        """What is held as it was written, where that differs: from a closing marker in a string on."""
        self._buffer_size = 0
        self._token_parts: list[str] = []
        self._paused = False
        self._in_string = False
        self._quote_at = 0

    def _on_string_end(self) -> None:
        """Note that a value's string is complete."""

    def _on_schema_mismatch(self) -> None:
        """Note that the schema does not admit what is held."""

    def _buffer_text(self, text: str) -> None:
        self._buffer.append(text)
        if self._buffer_source is not None:
            self._buffer_source.append(text)
        size = self._buffer_size = self._buffer_size + len(text)
        if size > self._max_buffered and not self._paused:
            raise LimitError(f"more than {self._max_buffered} characters between two values")

    def _commit(self, commit_point: CommitPoint) -> None:
        """Reach a firm place: what was held is right."""
        if self._in_string:
            self._commit_string()
        if self._unexpected_key:
            self._on_schema_mismatch()
        if self._pending_key is not None:
            self._keys[-1].add(self._pending_key)
            self._pending_key = None
        held = self._buffer
        if held:
            if self._target is not None:
                self._target += held
            held.clear()
            self._buffer_source = None
            self._buffer_size = 0
            self._paused = False
        self._commit_point = commit_point

    def _commit_string(self) -> None:
        """Send what is held of a string, now that its closing quote is known to be one; a firm place follows."""
        behind_quote = self._quote_at + 1
        if self._target is not None:
            self._target += self._buffer[:behind_quote]
        del self._buffer[:behind_quote]
        self._buffer_source = None
        self._buffer_size = 0
        self._paused = False
        self._in_string = False
        self._on_string_end()

    def _roll_back(self) -> str:
        """Give what is held as it was written, and go back to the last firm place."""
        source = "".join(self._buffer if self._buffer_source is None else self._buffer_source)
        self._buffer.clear()
        self._buffer_source = None
        self._token_parts.clear()
        self._buffer_size = 0
        self._paused = False
        self._pending_key = None
        return source
