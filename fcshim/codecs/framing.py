"""Splitting an upstream's body into JSON documents: the events of a stream, or one whole body.

Rule: the first significant byte decides the format: `{` or `[` is JSON (some upstreams ignore `stream: true`), `<` is a
web page, anything else is an event stream.
"""

from fcshim.codecs.sse import LINE_BYTES, SSESplitter
from fcshim.codecs.upstream_errors import excerpt
from fcshim.errors import UpstreamError

_HEAD_BYTES = 4096
_BOM = b"\xef\xbb\xbf"


class Framing:
    """Splits one body. `whole` becomes true where the body is one document instead of a stream, which `sse` splits."""

    def __init__(self, *, line_bytes: int = LINE_BYTES) -> None:
        self.whole = False
        self._limit = line_bytes
        self.sse = SSESplitter(line_bytes=line_bytes)
        self._streaming = False
        self._body = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the documents that they complete. Raises `UpstreamError` beyond the limit."""
        if self._streaming:
            if len(self._body) < _HEAD_BYTES:  # kept for the error message of a stream without events
                self._body += data[:_HEAD_BYTES]
            return self.sse.feed(data)
        self._body += data
        if len(self._body) > self._limit:
            self._body.clear()
            raise UpstreamError(f"the upstream's reply is longer than {self._limit} bytes")
        return [] if self.whole else self._detect_format()

    def close(self) -> list[bytes]:
        """Handle the end of the body; return the remaining documents. Raises `UpstreamError` for a web page."""
        if self._streaming:
            return self.sse.close()
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
            return []
        if start in (_BOM[:1], _BOM[:2]):  # a byte order mark that is split between two reads
            return []
        self._streaming = True
        data = bytes(self._body)
        del self._body[_HEAD_BYTES:]
        return self.sse.feed(data)
