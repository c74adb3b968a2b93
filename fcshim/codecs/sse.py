"""Server-sent events without I/O: bytes cut anywhere become data payloads, payloads become bytes.

Rule: lines end at LF, CRLF or CR and nowhere else; no byte is looked at twice; event names, ids and comments are
dropped.
Neighbours: every codec that streams over SSE reads and writes through this file.
"""

from fcshim.errors import UpstreamError

LINE_BYTES = 16 * 1024 * 1024
"""The default limit of one event: a whole reply of 4 million tokens fits, an endless line does not fill the memory."""

PING = b": ping\n\n"
"""A comment: it keeps a connection alive and means nothing."""

EVENT_STREAM = "text/event-stream; charset=utf-8"
"""The media type of such a body."""

_BOM = b"\xef\xbb\xbf"
_LINE_COST = 50  # bytes of memory that a line takes beside its text: many short lines are no way around the limit


def write_data(payload: bytes) -> bytes:
    """Give the event that carries `payload`, which must hold no line break (JSON from msgspec never does)."""
    return b"data: " + payload + b"\n\n"


class SSESplitter:
    """Splits one body into the data of its events."""

    __slots__ = ("_after_cr", "_at_start", "_data", "_data_bytes", "_limit", "_line", "_overflow")

    def __init__(self, *, line_bytes: int = LINE_BYTES) -> None:
        self._limit = line_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._after_cr = False
        self._at_start = True
        self._overflow = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; give the data of the events that they complete.

        Raises `UpstreamError` when an event grows beyond the limit (what was complete before is given first).
        """
        if self.is_plain_event(data):
            return [data[6:-2]]
        return self._split_lines(self._normalize_line_ends(data))

    def close(self) -> list[bytes]:
        """The body has ended; give the data of an event whose closing blank line is missing."""
        return self._split_lines(b"\n\n")

    def is_plain_event(self, data: bytes) -> bool:
        """Tell whether `data` is one event of one line (its data is `data[6:-2]`), as nearly every read is."""
        return (
            data.startswith(b"data: ")
            and data.find(b"\n") == len(data) - 2
            and data.endswith(b"\n\n")
            and not (self._line or self._data or self._after_cr or self._overflow)
            and len(b"data: \n\n") < len(data) <= self._limit
            and b"\r" not in data
        )

    def _normalize_line_ends(self, data: bytes) -> bytes:
        """Strip the byte order mark and make every line end an LF; the LF of a last CR may come with the next bytes."""
        if self._at_start:
            data = self._strip_bom(data)
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _strip_bom(self, data: bytes) -> bytes:
        data = bytes(self._line) + data
        self._line.clear()
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._line += data
            return b""
        self._at_start = False
        return data.removeprefix(_BOM)

    def _split_lines(self, data: bytes) -> list[bytes]:
        payloads: list[bytes] = []
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line
            if self._is_too_long():
                break
            self._take_line(bytes(self._line) if len(self._line) > len(line) else line, payloads)
            self._line.clear()
        else:
            self._line += rest
        if self._is_too_long() and not payloads:
            self._line.clear()
            raise UpstreamError(f"the upstream sent an event of more than {self._limit} bytes")
        return payloads

    def _is_too_long(self) -> bool:
        """Tell whether the event that is being read is beyond the limit; once it was, all that follows is."""
        self._overflow = self._overflow or len(self._line) + self._data_bytes > self._limit
        return self._overflow

    def _take_line(self, line: bytes, payloads: list[bytes]) -> None:
        if not line:
            payload = b"\n".join(self._data)
            if payload:
                payloads.append(payload)
            self._data.clear()
            self._data_bytes = 0
        elif line.startswith(b"data"):
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
                self._data_bytes += len(value) + _LINE_COST
