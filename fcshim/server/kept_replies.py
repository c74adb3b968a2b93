"""The replies to a request as they came: the bytes of each read, its time and its events, within a limit.

Rule: to keep a block of chunks costs a join and some appends; views are made when somebody looks. The bytes of a block
are one object: a buffer that grows would move, and each chunk's object would lie where no cache has it.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fcshim.events import Event
from fcshim.pipeline.exchange import AnyExchange, Batch
from fcshim.server.observation import Reads, RequestObserver

KEPT_BYTES = 8 * 2**20
"""Bytes of the replies to one request, for a record or a trace: some 20,000 chunks."""
CHUNK_BYTES = 200
"""What one kept chunk takes beside its data: an event with its text, a time and places in lists."""
_WRITE_BYTES = 40


class _Block(NamedTuple):
    """Some chunks: their times, their sizes and their bytes."""

    times: Sequence[float]
    sizes: Sequence[int]
    data: bytes


class ChunkLog:
    """Keeps chunks while there is room: `charge` counts bytes, and returns whether they may be kept."""

    __slots__ = ("_blocks", "_charge", "batches", "is_full")

    def __init__(self, charge: Callable[[int], bool]) -> None:
        self._charge = charge
        self._blocks: list[_Block] = []
        self.is_full = False
        """Whether something was not kept. From then on, nothing is: a reply with a gap would be read wrongly."""
        self.batches: list[Batch | Event] = []
        """A single event of the first choice stands without its batch."""

    @property
    def data(self) -> bytes:
        """All bytes."""
        return b"".join([block.data for block in self._blocks])

    @property
    def first_at(self) -> float:
        """The time of the first chunk; 0 without any."""
        return self._blocks[0].times[0] if self._blocks else 0.0

    def sizes(self) -> list[int]:
        """Return the sizes of the chunks that are not empty."""
        return [size for block in list(self._blocks) for size in block.sizes if size]

    def add_reads(self, reads: Reads) -> None:
        """Keep some reads of an upstream's reply."""
        if self._add(reads.at, reads.data, CHUNK_BYTES):
            self.batches += map(_single_event, reads.batches) if reads.events is None else reads.events

    def add_last(self, batch: Batch) -> None:
        """Keep the last events of a reply, which came without bytes."""
        if self._add((time.monotonic(),), (b"",), CHUNK_BYTES):
            self.batches.append(batch)

    def add_writes(self, at: Sequence[float], data: Sequence[bytes]) -> None:
        """Keep some bytes that were passed on."""
        self._add(at, data, _WRITE_BYTES)

    def chunks(self) -> list[tuple[float, bytes]]:
        """Return the chunks that are not empty, with their times."""
        return [chunk for block in list(self._blocks) for chunk in _chunks(block)]

    def events(self) -> list[tuple[float, int, Event]]:
        """Return the events, each with its time and choice."""
        # A thread may see a block that is being added.
        pairs = zip((at for block in list(self._blocks) for at in block.times), self.batches, strict=False)
        return [(at, choice, event) for at, batch in pairs for choice, event in _as_batch(batch)]

    def first_choice(self) -> list[Event]:
        """Return the events of the first choice."""
        return [event for batch in self.batches for choice, event in _as_batch(batch) if choice == 0]

    def _add(self, times: Sequence[float], data: Sequence[bytes], overhead: int) -> bool:
        part = b"".join(data)
        self.is_full = self.is_full or not self._charge(len(part) + len(data) * overhead)
        if not self.is_full:
            self._blocks.append(_Block(times, list(map(len, data)), part))
        return not self.is_full


def _chunks(block: _Block) -> list[tuple[float, bytes]]:
    ends = itertools.accumulate(block.sizes)
    triples = zip(block.times, block.sizes, ends, strict=True)
    return [(at, block.data[end - size : end]) for at, size, end in triples if size]


def _single_event(batch: Batch) -> Batch | Event:
    return batch[0][1] if len(batch) == 1 and not batch[0][0] else batch


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

    def take_reads(self, reads: Reads) -> None:
        """Keep some reads."""
        if self._limit:
            self.replies[-1].add_reads(reads)

    def end_attempt(self, batch: Batch) -> None:
        """Keep the last events."""
        if self._limit and self.replies and batch:
            self.replies[-1].add_last(batch)
