"""Newline-delimited JSON without I/O: bytes split anywhere become lines, and documents become lines.

Rule: a line ends only at LF; blank lines are skipped; no byte is scanned twice. Written lines contain no character that
some reader treats as a line end.
"""

from fcshim.codecs.framing import LINE_BYTES, TOO_MANY_VALUES
from fcshim.codecs.value_counter import SHORT, ValueCounter
from fcshim.errors import UpstreamError

NDJSON = "application/x-ndjson"
"""The media type of the body."""

PING = b" "
"""White space before a document: it keeps the connection alive, and JSON parsers skip it."""

_LINE_ENDS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
"""Unicode line separators, at which `str.splitlines` (and so httpx's `iter_lines`) splits, and their JSON escapes."""


def write_line(document: bytes) -> bytes:
    """Return the line for a JSON document; characters beyond ASCII may stand only inside its strings."""
    if not document.isascii():
        for raw, escaped in _LINE_ENDS:
            if raw in document:
                document = document.replace(raw, escaped)
    return document + b"\n"


class NDJSONSplitter:
    """Splits one body into lines."""

    def __init__(self, *, line_bytes: int = LINE_BYTES) -> None:
        self._limit = line_bytes
        self._pending: list[bytes] = []
        self.pending_bytes = 0
        """The size of the last line so far."""
        self._values: ValueCounter | None = None
        self._overflow = ""  # the limit that a line exceeds

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the lines that they complete.

        Raises `UpstreamError` when a line exceeds a limit; lines completed by the same bytes are returned first, and
        the next call raises.
        """
        *ends, rest = data.split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            line = self._finish_line(end)
            if self._overflow:
                break
            if line := line.strip():
                lines.append(line)
        else:
            self._append(rest)
        if self._overflow and not lines:
            raise UpstreamError(f"the upstream sent {self._overflow}")
        return lines

    def pending(self) -> bytes:
        """Return the bytes of the last line so far."""
        return b"".join(self._pending)

    def close(self) -> list[bytes]:
        """Handle the end of the body; return a last line that has no line end."""
        return self.feed(b"\n")

    def _finish_line(self, end: bytes) -> bytes:
        self._append(end)
        line = b"".join(self._pending)
        self._pending.clear()
        self._values = None
        self.pending_bytes = 0
        return line

    def _append(self, part: bytes) -> None:
        self.pending_bytes += len(part)
        if self.pending_bytes > self._limit:
            self._overflow = f"a line of more than {self._limit} bytes"
        if not part or self._overflow:
            return
        self._pending.append(part)
        if self.pending_bytes > SHORT:
            if self._values is None:  # the line was short up to here; it is counted from its start on
                self._values, part = ValueCounter(), self.pending()
            if self._values.feed(part):
                self._overflow = TOO_MANY_VALUES
