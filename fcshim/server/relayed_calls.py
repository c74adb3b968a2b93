"""Count the calls in a relayed reply by the text with which each call starts in the client's API.

Rule: nothing is decoded. A block of reads is searched for a fixed string, and only a block that has it for more.
Text of the model cannot look like it: in a JSON string, quotes are escaped.
Arguments that are objects could, but do not by accident.
"""

import re
from typing import NamedTuple

_OVERLAP = 128
"""Bytes of a block that are searched again with the next one, as a read may end inside a start."""
_MAX_COUNTED = 10_000


class CallStart(NamedTuple):
    """The start of a call: `text` occurs in each one; a group identifies a call whose start is repeated."""

    text: bytes
    pattern: re.Pattern[bytes]


_STARTS = {
    "openai_responses": CallStart(b'"call_id"', re.compile(rb'"call_id"\s*:\s*"([^"]{1,100})"')),
    "anthropic": CallStart(b'"tool_use"', re.compile(rb'"type"\s*:\s*"tool_use"')),
    "gemini": CallStart(b'"functionCall"', re.compile(rb'"functionCall"\s*:\s*\{')),
}
"""By API: those whose replies with calls are relayed (`UpstreamKind.allows_verbatim`)."""


class RelayedCalls:
    """Counts the calls of one reply in an API; 0 for an API whose replies have none."""

    def __init__(self, api: str) -> None:
        self._start = _STARTS.get(api)
        self._tail = b""
        self._found: set[bytes | int] = set()
        self._size = 0

    def __len__(self) -> int:
        return len(self._found)

    def add(self, data: bytes) -> None:
        """Search the next bytes."""
        start = self._start
        if start is None:
            return
        if start.text in data or start.text in self._tail + data[:_OVERLAP]:
            self._search(self._tail + data, start.pattern)
        self._size += len(data)
        self._tail = data[-_OVERLAP:] if len(data) >= _OVERLAP else (self._tail + data)[-_OVERLAP:]

    def _search(self, data: bytes, pattern: re.Pattern[bytes]) -> None:
        begin = self._size - len(self._tail)
        for found in pattern.finditer(data):
            if len(self._found) < _MAX_COUNTED:
                self._found.add(found[1] if pattern.groups else begin + found.start())
