"""An upstream's body, cut into JSON documents: the events of a stream, or one whole body.

Rule: the first significant byte tells what the body is: `{` or `[` is JSON (some upstreams do not stream though they
were asked to), `<` a web page, anything else a stream.
Neighbours: `sse` splits streams; `single` reads what comes out.
"""

from fcshim.codecs.sse import LINE_BYTES, SSESplitter
from fcshim.codecs.upstream_errors import excerpt
from fcshim.errors import UpstreamError

_HEAD_BYTES = 4096
_BOM = b"\xef\xbb\xbf"


class Framing:
    """Cuts one body. `whole` becomes true where the body is one document and no stream."""

    def __init__(self, *, line_bytes: int = LINE_BYTES) -> None:
        self.whole = False
        self._limit = line_bytes
        self._sse = SSESplitter(line_bytes=line_bytes)
        self._streaming = False
        self._body = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; give the documents that they complete. Raises `UpstreamError` beyond the limit."""
        if self._streaming:
            if len(self._body) < _HEAD_BYTES:
                self._body += data[:_HEAD_BYTES]
            return self._sse.feed(data)
        self._body += data
        if len(self._body) > self._limit:
            self._body.clear()
            raise UpstreamError(f"the upstream's reply is longer than {self._limit} bytes")
        return [] if self.whole else self._detect_format()

    def close(self) -> list[bytes]:
        """The body has ended; give what is left. Raises `UpstreamError` for a web page."""
        if self._streaming:
            return self._sse.close()
        body = bytes(self._body).removeprefix(_BOM).strip()
        if body[:1] == b"<":
            raise UpstreamError(f"the upstream answered with {excerpt(body)} instead of a reply")
        return [body] if body else []

    def excerpt(self) -> str:
        """Give the beginning of a body that held no document, for an error message."""
        return excerpt(bytes(self._body[:_HEAD_BYTES]))

    def _detect_format(self) -> list[bytes]:
        """Look for the first significant byte and go on as it says."""
        start = bytes(self._body[:_HEAD_BYTES]).removeprefix(_BOM).lstrip()
        if not start and len(self._body) < _HEAD_BYTES:
            return []
        if start[:1] in (b"{", b"[", b"<"):
            self.whole = True
            return []
        if start in (_BOM[:1], _BOM[:2]):
            return []
        self._streaming = True
        data = bytes(self._body)
        del self._body[_HEAD_BYTES:]
        return self._sse.feed(data)
