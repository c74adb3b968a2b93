"""The tokens of a reply that is relayed, read when it has ended.

Rule: nothing is decoded while it passes. The usage stands at the end of a stream, and some APIs report the tokens
of the prompt at its start; so these two parts are kept, or the whole of a short reply.
"""

from collections import deque
from collections.abc import Iterable

from fcshim.codecs.base import Decoder
from fcshim.errors import FcshimError
from fcshim.events import Event, Usage

_HEAD = 4 * 2**10
_TAIL = 16 * 2**10
"""Bytes of the two parts: the last events of the Responses API repeat a short reply."""
_MAX_WHOLE = 256 * 2**10
"""Bytes of a reply in one piece, of which a part cannot be read."""


class RelayedUsage:
    """Keeps the ends of one reply."""

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
            tail = _up_to_last_event(self._head) + _from_next_event(tail)
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


def _up_to_last_event(data: bytes) -> bytes:
    end = _separator(data)
    return data[: data.rfind(end) + len(end)] if end in data else b""


def _from_next_event(data: bytes) -> bytes:
    return data.partition(_separator(data))[2]


def _separator(data: bytes) -> bytes:
    return next((each for each in (b"\r\n\r\n", b"\n\n") if each in data), b"\n")
