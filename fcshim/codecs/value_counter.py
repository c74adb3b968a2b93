"""Counts the marks of JSON's structure in a text, without parsing it: quotes, commas, colons and opening brackets.

Parsers of JSON hold the interpreter's lock, and a megabyte of `[[[[]]]]` takes them half a second. So what an upstream
or an MCP server sends is refused by this count before it is parsed. Marks in strings do not count.
"""

MAX_MARKS = 400_000
"""Marks of one message, event, line or whole reply: what takes msgspec and pydantic some 100 ms.

The log probabilities of 900 tokens fit, with 20 others for each.
"""
MAX_VALUES = MAX_MARKS // 8
"""So many values fit: each has one to eight marks."""
_BRACKET_MARKS = 4
"""Marks of an opening bracket: a container costs as much as some numbers."""
SHORT = MAX_MARKS // _BRACKET_MARKS
"""Bytes of a document that need not be counted."""


class ValueCounter:
    """Counts the marks of one JSON text that comes in pieces, up to a little more than `MAX_MARKS`."""

    def __init__(self) -> None:
        self.count = 0
        self._in_string = False
        self._backslash = b""

    @property
    def exceeded(self) -> bool:
        """Whether there are more than `MAX_MARKS`."""
        return self.count > MAX_MARKS

    def feed(self, data: bytes) -> bool:
        """Take a piece; return whether there are too many marks by now."""
        if self.exceeded:
            return True
        if b"\\" in data or self._backslash:
            # Drop escaped quotes, and a backslash that escapes the next piece's first byte.
            data = (self._backslash + data).replace(b"\\\\", b"")
            self._backslash = data[-1:] if data.endswith(b"\\") else b""
            data = data.removesuffix(self._backslash).replace(b'\\"', b"")
        quotes = data.count(b'"')
        self.count += quotes
        if self.count <= MAX_MARKS:
            outside = b"".join(data.split(b'"')[self._in_string :: 2])
            self.count += outside.count(b",") + outside.count(b":")
            self.count += _BRACKET_MARKS * (outside.count(b"[") + outside.count(b"{"))
        self._in_string ^= bool(quotes % 2)
        return self.exceeded
