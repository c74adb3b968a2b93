"""Keeps the replies to a request: the bytes of each read, its time and its events, within a limit.

Blocks of reads are kept as they are reported; views are made on request.
"""

import itertools
import operator
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from fcshim.events import Event, Reasoning, Text, ToolCallChunk
from fcshim.pipeline.attempt import Batch
from fcshim.pipeline.exchange import Exchange
from fcshim.server.observation import Chunks, Reads, RequestObserver

KEPT_BYTES = 12 * 2**20
"""Bytes of the replies to one request, for a record or a trace: some 17,000 chunks."""
CHUNK_BYTES = 300
"""Memory of a kept chunk besides its bytes: an event with its text, a time, a size."""


_PIECES: dict[type[Event], tuple[str, str]] = {
    Text: ("text", ""),
    Reasoning: ("text", "signature"),
    ToolCallChunk: ("tool_call_arguments_chunk", "tool_call_id"),
}
"""By kind of piece: the field with its text, and the field in which pieces must agree to be joined (empty: any)."""
_NOTHING = Chunks(b"", ())


class ChunkLog:
    """Keeps chunks while there is room: `charge` counts bytes, and returns whether they may be kept.

    `written`: keep the bytes that went to the client, instead of those from the upstream.
    """

    __slots__ = ("_blocks", "_charge", "_keeps_written", "is_full")

    def __init__(self, charge: Callable[[int], bool], *, written: bool = False) -> None:
        self._charge = charge
        self._keeps_written = written
        self._blocks: list[Reads] = []
        self.is_full = False
        """Whether something was not kept. Nothing is kept after that, since a reply with a gap would be misread."""

    @property
    def data(self) -> bytes:
        """All bytes."""
        return b"".join([self._selected(reads).data for reads in self._kept()])

    @property
    def first_at(self) -> float:
        """The time of the first chunk; 0 without any."""
        return self._blocks[0].times[0] if self._blocks else 0.0

    def add(self, reads: Reads) -> bool:
        """Keep some reads; return whether there was room."""
        self.is_full = self.is_full or not self._charge(reads.size + len(reads.times) * CHUNK_BYTES)
        if not self.is_full:
            self._blocks.append(reads)
        return not self.is_full

    def add_last(self, batch: Batch) -> None:
        """Keep the last events of a reply, which have no bytes."""
        self.add(Reads((time.monotonic(),), _NOTHING, (batch,), _NOTHING))

    def add_write(self, at: float, data: bytes) -> None:
        """Keep bytes without a read."""
        self.add(Reads((at,), _NOTHING, (), Chunks(data, (len(data),))))

    def share(self, reads: Reads) -> None:
        """Keep reads that another log already keeps; they are not charged again."""
        if not self.is_full:
            self._blocks.append(reads)

    def chunks(self) -> list[tuple[float, bytes]]:
        """Return the chunks that are not empty, with their times."""
        return [chunk for reads in self._kept() for chunk in _timed_chunks(reads.times, self._selected(reads))]

    def events(self) -> list[tuple[float, int, Event]]:
        """Return the events, each with its time and choice."""
        return [
            (at, choice, event)
            for reads in self._kept()
            for at, events in zip(reads.times, reads.events, strict=False)
            for choice, event in (events if isinstance(events, list) else [(0, events)])
        ]

    def sizes(self) -> list[int]:
        """Return the sizes of the chunks that are not empty."""
        return list(filter(None, itertools.chain.from_iterable(self._selected(reads).sizes for reads in self._kept())))

    def first_choice(self) -> list[Event]:
        """Return the events of the first choice, with neighbouring pieces joined."""
        found: list[Event] = []
        for events in itertools.chain.from_iterable(reads.events for reads in self._kept()):
            if isinstance(events, list):
                found += [event for choice, event in events if choice == 0]
            else:
                found.append(events)
        return _joined_pieces(found)

    def _selected(self, reads: Reads) -> Chunks:
        return reads.written if self._keeps_written else reads.read

    def _kept(self) -> Sequence[Reads]:
        return list(self._blocks)  # more may be added while a thread iterates


def _timed_chunks(times: Sequence[float], chunks: Chunks) -> Iterable[tuple[float, bytes]]:
    end = 0
    for at, size in zip(times, chunks.sizes, strict=False):  # an unusable read has no write
        start, end = end, end + size
        if size:
            yield at, chunks.data[start:end]


def _joined_pieces(events: Iterable[Event]) -> list[Event]:
    """Join neighbouring pieces of a text, and of a call's arguments."""
    result: list[Event] = []
    for kind, group in itertools.groupby(events, type):
        if kind not in _PIECES:
            result += group
            continue
        content, shared = _PIECES[kind]
        pieces = list(group)
        runs = [pieces]
        if shared and len(set(map(operator.attrgetter(shared), pieces))) > 1:  # rare
            runs = [list(run) for _, run in itertools.groupby(pieces, operator.attrgetter(shared))]
        for run in runs:
            joined = "".join(map(operator.attrgetter(content), run))
            result.append(msgspec.structs.replace(run[0], **{content: joined}))
    return result


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

    def begin_attempt(self, exchange: Exchange, reason: str, *, native: bool) -> None:  # noqa: ARG002
        """Keep the reply to the attempt."""
        self.replies.append(ChunkLog(self.room.charge))

    def on_reads(self, reads: Reads) -> None:
        """Keep some reads."""
        self.replies[-1].add(reads)

    def end_attempt(self, batch: Batch) -> None:
        """Keep the last events."""
        if self._limit and self.replies and batch:
            self.replies[-1].add_last(batch)
