"""uvicorn's httptools protocol with a limit on the size of the request head, which uvicorn does not have.

Rule: bytes are counted as they arrive, so that an endless head cannot exhaust memory.
"""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/json\r\ncontent-length: 107\r\nconnection: close\r\n\r\n"
    b'{"error":{"message":"the request\'s head is too large","type":"headers_too_large","param":null,"code":null}}'
)


def limited_protocol(max_headers: int) -> type[HttpToolsProtocol]:
    """Make a protocol class that answers 431 to a head above `max_headers` bytes and closes the connection."""

    class LimitedProtocol(HttpToolsProtocol):
        """One connection."""

        _head_bytes = 0
        _in_head = True

        def data_received(self, data: bytes) -> None:
            """Count the bytes of an incomplete head.

            A head that this read completes is checked by `RequestGuard`.
            """
            super().data_received(data)
            if self._in_head:
                self._head_bytes += len(data)
                if self._head_bytes > max_headers and not self.transport.is_closing():
                    self.transport.write(_REFUSAL)
                    self.transport.close()

        def on_message_begin(self) -> None:
            """A request head starts."""
            self._in_head, self._head_bytes = True, 0
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            """A request head is complete."""
            self._in_head = False
            super().on_headers_complete()

    return LimitedProtocol
