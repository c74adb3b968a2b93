"""What is counted of a reply that is relayed: its tokens, and its calls.

Rule: nothing is decoded while it passes.
"""

import re
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from fcshim.codecs.base import Decoder
from fcshim.errors import FcshimError
from fcshim.events import Event, Usage

_HEAD = 4 * 2**10
_TAIL = 16 * 2**10
"""Bytes of the two parts: the last events of the Responses API repeat a short reply."""
_MAX_WHOLE = 256 * 2**10
"""Bytes of a reply in one piece, of which a part cannot be read."""


class RelayedUsage:
    """Keeps the ends of one reply, which are read when it has ended.

    The usage stands at the end of a stream, and some APIs report the tokens of the prompt at its start; so these two
    parts are kept, or the whole of a short reply.
    """

    def __init__(self) -> None:
        self._head = b""
        self._tail: deque[bytes] = deque()
        self._size = 0
        self._is_whole = True

    def add(self, parts: Iterable[bytes]) -> None:
        """Keep what may be needed of the next bytes."""
        for part in parts:
            if len(self._head) < _HEAD:
                self._head += part[: _HEAD - len(self._head)]
            self._tail.append(part)
            self._size += len(part)
        limit = _TAIL if b"\n" in self._head[:-1] else _MAX_WHOLE
        while len(self._tail) > 1 and self._size - len(self._tail[0]) >= limit:
            self._size -= len(self._tail.popleft())
            self._is_whole = False

    def read(self, decoder: Decoder) -> Usage | None:
        """Return the usage; None if the reply reports none or cannot be read."""
        tail = b"".join(self._tail)
        if not self._is_whole:
            start, separator, _ = self._head.rpartition(_separator(self._head))  # up to its last event
            tail = start + separator + tail.partition(_separator(tail))[2]
        usages = [event for event in _events(decoder, tail) if isinstance(event, Usage)]
        return usages[-1] if usages else None


def _events(decoder: Decoder, data: bytes) -> list[Event]:
    events: list[Event] = []
    try:
        events += [event for _, event in decoder.feed(data)]
        events += [] if decoder.ended else [event for _, event in decoder.close()]
    except FcshimError:
        return events
    return events


def _separator(data: bytes) -> bytes:
    return next((each for each in (b"\r\n\r\n", b"\n\n") if each in data), b"\n")


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
    """Counts the calls of one reply in an API; 0 for an API whose replies have none.

    A block of reads is searched for the text with which each call starts in that API. Text of the model cannot look
    like it: in a JSON string, quotes are escaped. Arguments that are objects could, but do not by accident.
    """

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
