"""Keeps the replies to a request: the bytes of each read, its time and its events, within a limit.

Rule: only objects that exist anyway are kept, unchanged; views are made on request.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from fcshim.events import Event
from fcshim.pipeline.exchange import AnyExchange, Batch
from fcshim.server.observation import Read, Reads, RequestObserver

KEPT_BYTES = 12 * 2**20
"""Bytes of the replies to one request, for a record or a trace: some 17,000 chunks."""
CHUNK_BYTES = 300
"""Memory of a kept chunk besides its bytes: the objects, an event with its text, a time, a tuple."""


class ChunkLog:
    """Keeps chunks while there is room: `charge` counts bytes, and returns whether they may be kept.

    `written`: keep the bytes that went to the client, instead of those from the upstream.
    """

    __slots__ = ("_blocks", "_charge", "_side", "is_full")

    def __init__(self, charge: Callable[[int], bool], *, written: bool = False) -> None:
        self._charge = charge
        self._side: Literal[1, 3] = 3 if written else 1
        self._blocks: list[Sequence[Read]] = []
        self.is_full = False
        """Whether something was not kept. Nothing is kept after that, since a reply with a gap would be misread."""

    @property
    def data(self) -> bytes:
        """All bytes."""
        return b"".join([data for _, data in self.chunks()])

    @property
    def first_at(self) -> float:
        """The time of the first chunk; 0 without any."""
        return self._blocks[0][0][0] if self._blocks else 0.0

    def add(self, reads: Reads) -> bool:
        """Keep some reads; return whether there was room."""
        self.is_full = self.is_full or not self._charge(reads.size + len(reads.reads) * CHUNK_BYTES)
        if not self.is_full:
            self._blocks.append(reads.reads)
        return not self.is_full

    def add_last(self, batch: Batch) -> None:
        """Keep the last events of a reply, which have no bytes."""
        self.add(Reads([(time.monotonic(), b"", batch, b"")], 0))

    def add_write(self, at: float, data: bytes) -> None:
        """Keep bytes without a read."""
        self.add(Reads([(at, b"", [], data)], len(data)))

    def share(self, reads: Reads) -> None:
        """Keep reads that another log already keeps; they are not charged again."""
        if not self.is_full:
            self._blocks.append(reads.reads)

    def chunks(self) -> list[tuple[float, bytes]]:
        """Return the chunks that are not empty, with their times."""
        side = self._side
        return [(read[0], read[side]) for read in self._reads() if read[side]]

    def events(self) -> list[tuple[float, int, Event]]:
        """Return the events, each with its time and choice."""
        return [(read[0], choice, event) for read in self._reads() for choice, event in _as_batch(read[2])]

    def first_choice(self) -> list[Event]:
        """Return the events of the first choice."""
        found: list[Event] = []
        for _, _, events, _ in self._reads():
            if isinstance(events, list):
                found += [event for choice, event in events if choice == 0]
            else:
                found.append(events)
        return found

    def _reads(self) -> Iterable[Read]:
        return itertools.chain.from_iterable(list(self._blocks))  # more may be added while a thread iterates


def _as_batch(events: Event | Batch) -> Batch:
    return events if isinstance(events, list) else [(0, events)]


class _ReplyRoom:
    """The rest of a limit. Without a reference to its owner: a cycle would stay until a full garbage collection."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def charge(self, size: int) -> bool:
        """Count bytes to be kept; return whether there is room for them."""
        self._left -= size
        return self._left >= 0


class KeptReplies(RequestObserver):
    """Keeps up to `limit` bytes of the replies to the attempts of one request; with 0, nothing."""

    def __init__(self, limit: int) -> None:
        self.replies: list[ChunkLog] = []
        self._limit = limit
        self.wants_reads = limit > 0
        self.room = _ReplyRoom(limit)

    def begin_attempt(self, exchange: AnyExchange, reason: str, *, native: bool) -> None:  # noqa: ARG002
        """Keep the reply to the attempt."""
        self.replies.append(ChunkLog(self.room.charge))

    def take_reads(self, reads: Reads) -> None:
        """Keep some reads."""
        self.replies[-1].add(reads)

    def end_attempt(self, batch: Batch) -> None:
        """Keep the last events."""
        if self._limit and self.replies and batch:
            self.replies[-1].add_last(batch)
