"""Bytes to lines: the framing of MCP over standard output.

Rule: linear in what comes; a line beyond the limit is dropped to its end, and told by its head and tail.
Neighbours: `stdio` feeds it and reads the messages.
"""

import msgspec

DEFAULT_LINE_LIMIT = 16 * 2**20
"""Bytes of one message: room for a screenshot, not for a server that never ends its line."""
_EXCERPT_BYTES = 256
"""Bytes kept from both ends of a dropped line: enough to find the `id` of the request that it answers."""


class OversizedLine(msgspec.Struct, frozen=True):
    """A line that was too long."""

    head: bytes
    tail: bytes


class BoundedLineSplitter:
    """Cuts a stream of bytes at line feeds."""

    def __init__(self, limit: int = DEFAULT_LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._oversized: tuple[bytes, bytes] | None = None

    def feed(self, data: bytes) -> list[bytes | OversizedLine]:
        """Take more bytes; give the lines that they complete, without their ends."""
        *whole, rest = data.split(b"\n")
        lines = [self._finish_line(piece) for piece in whole]
        self._buffer(rest)
        return lines

    def _finish_line(self, piece: bytes) -> bytes | OversizedLine:
        self._buffer(piece)
        if self._oversized is not None:
            line: bytes | OversizedLine = OversizedLine(*self._oversized)
        else:
            line = b"".join(self._parts)
        self._parts, self._size, self._oversized = [], 0, None
        return line

    def _buffer(self, piece: bytes) -> None:
        if self._oversized is not None:
            head, tail = self._oversized
            self._oversized = head, (tail + piece[-_EXCERPT_BYTES:])[-_EXCERPT_BYTES:]
            return
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            text = b"".join(self._parts)
            self._parts, self._oversized = [], (text[:_EXCERPT_BYTES], text[-_EXCERPT_BYTES:])
