"""Splitting an upstream's body into JSON documents, without I/O: the server-sent events of a stream, or one whole body.

Rule: the first significant byte decides the format: `{` or `[` is JSON (some upstreams ignore `stream: true`), `<` is a
web page, anything else is an event stream. Lines end only at LF, CRLF or CR (`str.splitlines` also splits at U+2028,
which JSON strings may contain); no byte is scanned twice; event names, ids and comments are dropped.
"""

import re

from fcshim.codecs.upstream_errors import EXCERPT_BYTES, excerpt
from fcshim.codecs.value_counter import MAX_VALUES, SHORT, ValueCounter
from fcshim.errors import UpstreamError

LINE_BYTES = 16 * 1024 * 1024
"""The default limit of one event: a whole reply of 4 million tokens fits, and an endless line cannot fill memory."""

TOO_MANY_VALUES = f"more than {MAX_VALUES} JSON values in one piece of its reply"

EVENT_STREAM = "text/event-stream; charset=utf-8"
"""The media type of the body."""

_BOM = b"\xef\xbb\xbf"
_DONE = b"[DONE]"
_DONE_LINE = b"data: [DONE]"
_LINE_COST = 50  # bytes that a line takes in memory beside its text, so that many short lines cannot evade the limit


def write_comment(note: str = "") -> bytes:
    """Write a comment of one line, which keeps the connection alive and which clients ignore."""
    return f": {note or 'ping'}\n\n".encode()


def write_data(payload: bytes) -> bytes:
    """Return the event for `payload`, which must not contain a line break (JSON from msgspec never does)."""
    return b"data: " + payload + b"\n\n"


class SSESplitter:
    """Splits one body into the data payloads of its events."""

    __slots__ = ("_after_cr", "_at_start", "_data", "_data_bytes", "_limit", "_line", "_overflow")

    def __init__(self, *, line_bytes: int = LINE_BYTES) -> None:
        self._limit = line_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._after_cr = False
        self._at_start = True
        self._overflow = ""  # the limit that an event exceeds

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the data of the events that they complete.

        Raises `UpstreamError` when an event exceeds a limit; events completed by the same bytes are returned first,
        and the next call raises.
        """
        if self.is_plain_event(data) and len(data) <= SHORT:
            return [data[6:-2]]
        payloads = self._split_lines(self._normalize_line_ends(data))
        if self._line == _DONE_LINE or self._data == [_DONE]:
            # The last event of a body, of which some servers leave out a line end, and keep the body open.
            self._line.clear()
            self._data.clear()
            self._data_bytes = 0
            payloads.append(_DONE)
        return payloads

    def close(self) -> list[bytes]:
        """Handle the end of the body; return the data of an event whose closing blank line is missing."""
        return self._split_lines(b"\n\n")

    def is_plain_event(self, data: bytes) -> bool:
        """Return whether `data` is exactly one event of one line, so that its payload is `data[6:-2]`.

        Nearly every read from an engine is; `feed` then skips the line buffer.
        """
        return (
            data.startswith(b"data: ")
            and data.find(b"\n") == len(data) - 2
            and data.endswith(b"\n\n")
            and not (self._line or self._data or self._after_cr or self._overflow)
            and len(b"data: \n\n") < len(data) <= self._limit
            and b"\r" not in data
        )

    def _normalize_line_ends(self, data: bytes) -> bytes:
        """Strip the byte order mark and replace every line end by LF; a CRLF may be split between two calls."""
        if self._at_start:
            data = bytes(self._line) + data
            self._line.clear()
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._line += data
                return b""
            self._at_start = False
            data = data.removeprefix(_BOM)
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

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
            raise UpstreamError(f"the upstream sent {self._overflow}")
        return payloads

    def _is_too_long(self) -> bool:
        """Return whether an event exceeds a limit; the splitter does not recover from that."""
        if not self._overflow and len(self._line) + self._data_bytes > self._limit:
            self._overflow = f"an event of more than {self._limit} bytes"
        return bool(self._overflow)

    def _take_line(self, line: bytes, payloads: list[bytes]) -> None:
        if not line:
            payload = b"\n".join(self._data)
            if len(payload) > SHORT and ValueCounter().feed(payload):
                self._overflow = TOO_MANY_VALUES
            elif payload:
                payloads.append(payload)
            self._data.clear()
            self._data_bytes = 0
        elif line.startswith(b"data"):
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
                self._data_bytes += len(value) + _LINE_COST


_STRUCTURE = re.compile(rb'\\.|\\\Z|["{}\[\]]', re.DOTALL)
_LEVELS = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}
_REASON = re.compile(
    rb'"(?:finish_?reason|stop_?reason|stop_type|status)"\s*:\s*"|"error"\s*:\s*[{"]|"done"\s*:\s*true', re.IGNORECASE
)
"""The field of a whole reply, in any API, with the reason of its end; quotes in the model's text are escaped."""
_REASON_BYTES = 64


class WholeReplyEnd:
    """Finds the end of a reply that is one JSON value, in bytes split anywhere: some servers leave the body open.

    Rule: the value is closed, nothing follows it, and it has the reason of the reply's end. If a server sends lines of
    JSON instead of events, the first line has no such reason.
    """

    __slots__ = ("_depth", "_escaped", "_gives_reason", "_in_string", "_tail")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = self._gives_reason = False
        self._tail = b""

    def feed(self, data: bytes) -> bool:
        """Take the next bytes; return whether the reply ends with them."""
        self._count_levels(data)
        recent = self._tail + data
        self._tail = recent[-_REASON_BYTES:]
        self._gives_reason = self._gives_reason or _REASON.search(recent) is not None
        return self._gives_reason and not self._depth and recent.rstrip().endswith((b"}", b"]"))

    def _count_levels(self, data: bytes) -> None:
        tokens: list[bytes] = _STRUCTURE.findall(data, 1 if self._escaped else 0)
        self._escaped = data.endswith(b"\\") and tokens[-1:] == [b"\\"]
        for token in tokens:
            if token == b'"':
                self._in_string = not self._in_string
            elif not self._in_string:
                self._depth += _LEVELS.get(token, 0)


_HEAD_BYTES = 4096


class Framing:
    """Splits one body. `whole` becomes true where the body is one document instead of a stream, which `sse` splits."""

    def __init__(self, *, line_bytes: int = LINE_BYTES) -> None:
        self.whole = False
        self._limit = line_bytes
        self.sse = SSESplitter(line_bytes=line_bytes)
        self._streaming = False
        self._body = bytearray()
        self._values: ValueCounter | None = None  # of a whole document, as the next one
        self._end: WholeReplyEnd | None = None
        self._returned = False  # the whole document

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the documents that they complete. Raises `UpstreamError` beyond the limit."""
        if self._streaming:
            if len(self._body) < EXCERPT_BYTES:  # kept for the error message of a stream without events
                self._body += data[: EXCERPT_BYTES - len(self._body)]
            return self.sse.feed(data)
        self._body += data
        if len(self._body) > self._limit:
            self._body.clear()
            raise UpstreamError(f"the upstream's reply is longer than {self._limit} bytes")
        if not self.whole:
            return self._detect_format()
        return self._whole_document(data)

    def _whole_document(self, data: bytes) -> list[bytes]:
        """Return the document that these bytes complete, once: the body may stay open after it."""
        if self._returned:
            return []
        if self._values is not None and self._values.feed(data):
            self._body.clear()
            raise UpstreamError(f"the upstream sent {TOO_MANY_VALUES}")
        if self._end is None or not self._end.feed(data):
            return []
        self._returned = True
        return [bytes(self._body).removeprefix(_BOM).strip()]

    def close(self) -> list[bytes]:
        """Handle the end of the body; return the remaining documents. Raises `UpstreamError` for a web page."""
        if self._streaming:
            return self.sse.close()
        if self._returned:
            return []
        body = bytes(self._body).removeprefix(_BOM).strip()
        if body[:1] == b"<":
            raise UpstreamError(f"the upstream answered with {excerpt(body)} instead of a reply")
        return [body] if body else []

    def excerpt(self) -> str:
        """Return the beginning of a body that held no document, for an error message."""
        return excerpt(bytes(self._body[:_HEAD_BYTES]))

    def _detect_format(self) -> list[bytes]:
        """Decide the format by the first significant byte; return the first documents of a stream."""
        start = bytes(self._body[:_HEAD_BYTES]).removeprefix(_BOM).lstrip()
        if not start and len(self._body) < _HEAD_BYTES:
            return []
        if start[:1] in (b"{", b"[", b"<"):
            self.whole = True
            self._values, self._end = ValueCounter(), WholeReplyEnd()
            return self._whole_document(bytes(self._body))
        if start in (_BOM[:1], _BOM[:2]):  # a byte order mark that is split between two reads
            return []
        self._streaming = True
        data, self._body = bytes(self._body), self._body[:EXCERPT_BYTES]
        return self.sse.feed(data)
