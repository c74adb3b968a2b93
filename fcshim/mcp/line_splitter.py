"""Splits bytes into lines: the framing of MCP over standard output.

Rule: linear in the input; a line beyond the limit is discarded to its end, and reported by its first and last bytes.
"""

import msgspec

DEFAULT_LINE_LIMIT = 16 * 2**20
"""Bytes of one message: enough for a screenshot (asyncio's 64 KiB are not), and an end for an endless line."""
_EXCERPT_BYTES = 256
"""Bytes kept of both ends of an oversized line: enough to find the `id` of the request that it answers."""


class OversizedLine(msgspec.Struct, frozen=True):
    """The ends of a line that was too long."""

    head: bytes
    tail: bytes


class BoundedLineSplitter:
    """Splits a stream of bytes at line feeds, with a limit on each line."""

    def __init__(self, limit: int = DEFAULT_LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._oversized: tuple[bytes, bytes] | None = None

    def feed(self, data: bytes) -> list[bytes | OversizedLine]:
        """Take more bytes; return the lines that they complete, without line feeds."""
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
