"""Splits bytes into lines: the framing of MCP over standard output.

Rule: linear in the input; a line beyond a limit is discarded to its end, and reported by its first and last bytes.
Blank lines are dropped.
"""

import msgspec

from fcshim.codecs.value_counter import MAX_VALUES, ValueCounter

DEFAULT_LINE_LIMIT = 16 * 2**20
"""Bytes of one message: enough for a screenshot (asyncio's 64 KiB are not), and an end for an endless line."""
_EXCERPT_BYTES = 256
"""Bytes kept of both ends of an oversized line: enough to find the `id` of the request that it answers."""


TOO_MANY_VALUES = f"too large: it has more than {MAX_VALUES} values"


class OversizedLine(msgspec.Struct, frozen=True):
    """The ends of a line that was too long, or holds too many values; `reason` says which."""

    head: bytes
    tail: bytes
    reason: str


class BoundedLineSplitter:
    """Splits a stream of bytes at line feeds, with a limit on each line."""

    def __init__(self, limit: int = DEFAULT_LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._oversized: OversizedLine | None = None
        self._values = ValueCounter()

    def feed(self, data: bytes) -> list[bytes | OversizedLine]:
        """Take more bytes; return the lines that they complete, without line feeds."""
        *whole, rest = data.split(b"\n")
        lines = [self._finish_line(piece) for piece in whole if piece or self._size]
        self._buffer(rest)
        return lines

    def _finish_line(self, piece: bytes) -> bytes | OversizedLine:
        self._buffer(piece)
        line = self._oversized or b"".join(self._parts)
        self._parts, self._size, self._oversized, self._values = [], 0, None, ValueCounter()
        return line

    def _buffer(self, piece: bytes) -> None:
        if self._oversized is not None:
            tail = (self._oversized.tail + piece[-_EXCERPT_BYTES:])[-_EXCERPT_BYTES:]
            self._oversized = msgspec.structs.replace(self._oversized, tail=tail)
            return
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            self._discard(f"longer than {self._limit} bytes")
        elif self._values.feed(piece):
            self._discard(TOO_MANY_VALUES)

    def _discard(self, reason: str) -> None:
        text = b"".join(self._parts)
        self._parts, self._oversized = [], OversizedLine(text[:_EXCERPT_BYTES], text[-_EXCERPT_BYTES:], reason)
