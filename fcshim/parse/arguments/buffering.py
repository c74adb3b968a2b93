"""The text that a strict reader has read: sent, or buffered until it is certain.

Theory of operation. At a commit point the buffered text is known to be strict JSON, and is sent. At a deviation the
buffer is rolled back: its source text is returned, to be read by the tolerant grammar from the last commit point on.

Rule: the size of the buffer is limited.
"""

from fcshim.parse.arguments.repair import CommitPoint
from fcshim.parse.limits import Limits


class NotStrictError(Exception):
    """The text is not strict JSON, and is not to be repaired."""


class LimitError(Exception):
    """The value is longer or more deeply nested than the limits allow."""


class CommitBuffer:
    """Buffers text until it is committed to `_target`, which a subclass sets; None discards it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._max_buffered = limits.mend
        self._commit_point: CommitPoint = "start"
        self._keys: list[set[str]] = []
        self._pending_key: str | None = None
        self._unexpected_key = False
        """True if the schema does not admit the pending key."""
        self._target: list[str] | None = None
        self._buffer: list[str] = []
        self._buffer_source: list[str] | None = None
        """The source text of the buffer where it may differ from its JSON: from an end marker in a string on."""
        self._buffer_size = 0
        self._token_parts: list[str] = []
        self._paused = False
        self._in_string = False
        self._quote_at = 0

    def _on_string_end(self) -> None:
        """React to the end of a string value."""

    def _on_schema_mismatch(self) -> None:
        """React to buffered text that the schema does not admit."""

    def _buffer_text(self, text: str) -> None:
        self._buffer.append(text)
        if self._buffer_source is not None:
            self._buffer_source.append(text)
        size = self._buffer_size = self._buffer_size + len(text)
        if size > self._max_buffered and not self._paused:
            raise LimitError(f"more than {self._max_buffered} characters between two values")

    def _commit(self, commit_point: CommitPoint) -> None:
        """Reach a commit point: send the buffered text."""
        if self._in_string:
            self._commit_string()
        if self._unexpected_key:
            self._on_schema_mismatch()
        if self._pending_key is not None:
            self._keys[-1].add(self._pending_key)
            self._pending_key = None
        buffer = self._buffer
        if buffer:
            if self._target is not None:
                self._target += buffer
            buffer.clear()
            self._buffer_source = None
            self._buffer_size = 0
            self._paused = False
        self._commit_point = commit_point

    def _commit_string(self) -> None:
        """Send the buffered end of a string, once its closing quote is confirmed; a commit point follows."""
        after_quote = self._quote_at + 1
        if self._target is not None:
            self._target += self._buffer[:after_quote]
        del self._buffer[:after_quote]
        self._buffer_source = None
        self._buffer_size = 0
        self._paused = False
        self._in_string = False
        self._on_string_end()

    def _roll_back(self) -> str:
        """Empty the buffer, back to the last commit point, and return its source text."""
        source = "".join(self._buffer if self._buffer_source is None else self._buffer_source)
        self._buffer.clear()
        self._buffer_source = None
        self._token_parts.clear()
        self._buffer_size = 0
        self._paused = False
        self._pending_key = None
        return source
