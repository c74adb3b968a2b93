"""JSON documents on lines, without I/O: bytes cut anywhere become lines, documents become lines.

Rule: a line ends at LF and nowhere else, blank ones are nothing; no byte is looked at twice. What we write holds no
character at which some reader would end a line early.
Neighbours: the codec of Ollama, whose streams have this form.
"""

from fcshim.codecs.sse import LINE_BYTES
from fcshim.errors import UpstreamError

NDJSON = "application/x-ndjson"
"""The media type of such a body."""

PING = b" "
"""White space before a document: it keeps a connection alive, and every reader of JSON skips it."""

_LINE_ENDS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
"""Unicode's further line ends, which `str.splitlines` (and so httpx's `iter_lines`) takes for some."""


def write_line(document: bytes) -> bytes:
    """Give the line for a JSON document whose strings are the only place for anything but ASCII."""
    if not document.isascii():
        for raw, escaped in _LINE_ENDS:
            if raw in document:
                document = document.replace(raw, escaped)
    return document + b"\n"


class NDJSONSplitter:
    """Splits one body into its lines."""

    def __init__(self, *, line_bytes: int = LINE_BYTES) -> None:
        self._limit = line_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._overflow = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; give the lines that they complete.

        Raises `UpstreamError` when a line grows beyond the limit (what was complete before is given first).
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
            raise UpstreamError(f"the upstream sent a line of more than {self._limit} bytes")
        return lines

    def close(self) -> list[bytes]:
        """The body has ended; give a last line without its end."""
        return self.feed(b"\n")

    def _finish_line(self, end: bytes) -> bytes:
        self._append(end)
        line = b"".join(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
        return line

    def _append(self, part: bytes) -> None:
        self._pending_bytes += len(part)
        self._overflow = self._overflow or self._pending_bytes > self._limit
        if part and not self._overflow:
            self._pending.append(part)
