"""The replies to a request as they came: the bytes of each read, its time and its events, within a limit.

Rule: to keep a block of chunks costs a join and some appends; views are made when somebody looks. The bytes of a block
are one object: a buffer that grows would move, and each chunk's object would lie where no cache has it.
"""

import itertools
import time
from array import array
from collections.abc import Callable, Sequence

from fcshim.events import Event
from fcshim.pipeline.exchange import AnyExchange, Batch
from fcshim.server.observation import Read, RequestObserver, Write

KEPT_BYTES = 8 * 2**20
"""Bytes of the replies to one request, for a record or a trace: some 20,000 chunks."""
CHUNK_BYTES = 200
"""What one kept chunk takes beside its data: an event with its text, a time and places in lists."""
_WRITE_BYTES = 20


class ChunkLog:
    """Keeps chunks while there is room: `charge` counts bytes, and returns whether they may be kept."""

    __slots__ = ("_charge", "_parts", "batches", "is_full", "sizes", "times")

    def __init__(self, charge: Callable[[int], bool]) -> None:
        self._charge = charge
        self._parts: list[bytes] = []
        self.is_full = False
        """Whether something was not kept. From then on, nothing is: a reply with a gap would be read wrongly."""
        self.sizes = array("L")
        self.times = array("d")
        self.batches: list[Batch | Event] = []
        """A single event of the first choice stands without its batch."""

    @property
    def data(self) -> bytes:
        """All bytes."""
        return b"".join(self._parts)

    def add_reads(self, reads: Sequence[Read]) -> None:
        """Keep some reads of an upstream's reply."""
        came_at, _, data, batches = zip(*reads, strict=True)
        if self._add(came_at, data, CHUNK_BYTES):
            self.batches += [batch[0][1] if len(batch) == 1 and not batch[0][0] else batch for batch in batches]

    def add_last(self, batch: Batch) -> None:
        """Keep the last events of a reply, which came without bytes."""
        now = time.monotonic()
        self.add_reads([(now, now, b"", batch)])

    def add_writes(self, writes: Sequence[Write]) -> None:
        """Keep some bytes that were passed on."""
        at, data = zip(*writes, strict=True)
        self._add(at, data, _WRITE_BYTES)

    def chunks(self) -> list[tuple[float, bytes]]:
        """Return the chunks with their times."""
        data, ends = self.data, itertools.accumulate(self.sizes)
        pairs = zip(self.times, self.sizes, ends, strict=False)  # a thread may see a block that is being added
        return [(at, data[end - size : end]) for at, size, end in pairs]

    def events(self) -> list[tuple[float, int, Event]]:
        """Return the events, each with its time and choice."""
        pairs = zip(self.times, self.batches, strict=False)
        return [(at, choice, event) for at, batch in pairs for choice, event in _as_batch(batch)]

    def first_choice(self) -> list[Event]:
        """Return the events of the first choice."""
        return [event for _, choice, event in self.events() if choice == 0]

    def _add(self, times: Sequence[float], data: Sequence[bytes], overhead: int) -> bool:
        part = b"".join(data)
        self.is_full = self.is_full or not self._charge(len(part) + len(data) * overhead)
        if not self.is_full:
            self._parts.append(part)
            self.sizes.extend(map(len, data))
            self.times.extend(times)
        return not self.is_full


def _as_batch(batch: Batch | Event) -> Batch:
    return batch if isinstance(batch, list) else [(0, batch)]


class _ReplyRoom:
    """What is left of a limit. It knows no owner: a cycle would stay until a full garbage collection."""

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
        self.room = _ReplyRoom(limit)

    def begin_attempt(self, exchange: AnyExchange, reason: str, *, native: bool) -> None:  # noqa: ARG002
        """Keep the reply to the attempt."""
        self.replies.append(ChunkLog(self.room.charge))

    def take_reads(self, reads: Sequence[Read]) -> None:
        """Keep some reads."""
        if self._limit:
            self.replies[-1].add_reads(reads)

    def end_attempt(self, batch: Batch) -> None:
        """Keep the last events."""
        if self._limit and self.replies and batch:
            self.replies[-1].add_last(batch)
