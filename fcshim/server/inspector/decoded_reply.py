"""The captured bytes of one upstream reply, decoded when somebody looks.

Rule: `pieces` are what the model wrote, in its order, each with its time; `events` are what the client was told.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from fcshim.codecs.base import Decoder, UpstreamCodec
from fcshim.config.credentials import CredentialMask
from fcshim.errors import FcshimError
from fcshim.events import Event, Reasoning, Text, ToolCallChunk, ToolCallStart
from fcshim.pipeline.exchange import Batch

PieceKind = Literal["text", "reasoning", "name", "arguments"]


class ChunkLog:
    """The bytes of one body as they came, with times, and what each chunk completed.

    The bytes are copied into one buffer: to keep their objects would make every chunk touch memory that no cache has.
    """

    __slots__ = ("batches", "data", "ends", "times")

    def __init__(self) -> None:
        self.data = bytearray()
        self.ends = array("Q")
        self.times = array("d")
        self.batches: list[Batch | Event] = []
        """For a reply of the upstream; a single event of the first choice stands without its batch."""

    def append(self, at: float, data: bytes) -> None:
        """Add a chunk."""
        self.data += data
        self.ends.append(len(self.data))
        self.times.append(at)

    def chunks(self) -> list[tuple[float, bytes]]:
        """Return the chunks with their times."""
        data, starts = bytes(self.data), [0, *self.ends]
        return [(at, data[start:end]) for at, start, end in zip(self.times, starts[:-1], self.ends, strict=False)]


class Piece(NamedTuple):
    """What one chunk brought: `text` is still to be parsed, the other kinds were told apart by the upstream."""

    at: float
    kind: PieceKind
    text: str


class DecodedReply(msgspec.Struct, frozen=True):
    """One reply, of its first choice."""

    pieces: list[Piece]
    events: list[tuple[float, Event]]


def decode_reply(codec: UpstreamCodec, log: ChunkLog) -> DecodedReply:
    """Decode what was captured so far; what cannot be decoded ends the pieces."""
    pieces = _pieces(decoded_events(codec.decoder(), log.chunks()))
    return DecodedReply(list(pieces), logged_events(log))


def logged_events(log: ChunkLog) -> list[tuple[float, Event]]:
    """Return the events of the first choice, with times."""
    pairs = zip(log.times, log.batches, strict=False)  # a thread may see a chunk that is being added
    return [(at, event) for at, batch in pairs for event in _first_choice(batch)]


def _first_choice(batch: Batch | Event) -> list[Event]:
    return [event for choice, event in batch if choice == 0] if isinstance(batch, list) else [batch]


def decoded_events(decoder: Decoder, data: Iterable[tuple[float, bytes]]) -> list[tuple[float, Event]]:
    """Decode the bytes of a body with their times, up to the first that cannot be decoded."""
    result: list[tuple[float, Event]] = []
    last = 0.0
    try:
        for last, each in data:
            result += [(last, event) for choice, event in decoder.feed(each) if choice == 0]
        if not decoder.ended:
            result += [(last, event) for choice, event in decoder.close() if choice == 0]
    except FcshimError:
        return result
    return result


def _pieces(events: Iterable[tuple[float, Event]]) -> Iterable[Piece]:
    for at, event in events:
        match event:
            case Text():
                yield Piece(at, "text", event.text)
            case Reasoning():
                yield Piece(at, "reasoning", event.text)
            case ToolCallStart():
                yield Piece(at, "name", event.tool_call_name)
            case ToolCallChunk():
                yield Piece(at, "arguments", event.tool_call_arguments_chunk)


def relayed_reply(decoder: Decoder, sent: Sequence[tuple[float, bytes]]) -> DecodedReply:
    """Decode a relayed response: what the model wrote is what the client got."""
    events = decoded_events(decoder, sent)
    return DecodedReply(list(_pieces(events)), events)


def masked_reply(reply: DecodedReply, mask: CredentialMask) -> DecodedReply | None:
    """Return the reply without credentials, its pieces and events joined; None if it has none."""
    if not mask.is_needed:
        return None
    pieces, events = list(_joined_pieces(reply.pieces)), list(_joined_events(reply.events))
    masked_pieces = [piece._replace(text=mask.mask_text(piece.text)) for piece in pieces]
    masked_events = [(at, _masked_event(event, mask)) for at, event in events]
    if masked_pieces == pieces and masked_events == events:
        return None
    return DecodedReply(masked_pieces, masked_events)


def _joined_pieces(pieces: Iterable[Piece]) -> Iterable[Piece]:
    run: list[Piece] = []
    for piece in pieces:
        if run and (piece.kind != run[-1].kind or piece.kind == "name"):
            yield run[0]._replace(text="".join(each.text for each in run))
            run = []
        run.append(piece)
    if run:
        yield run[0]._replace(text="".join(each.text for each in run))


def _joined_events(events: Iterable[tuple[float, Event]]) -> Iterable[tuple[float, Event]]:
    run: list[tuple[float, Event]] = []
    for at, event in events:
        if run and not (_is_part(event) and type(event) is type(run[-1][1])):
            yield _joined(run)
            run = []
        run.append((at, event))
    if run:
        yield _joined(run)


def _is_part(event: Event) -> bool:
    return isinstance(event, Text | Reasoning | ToolCallChunk)


def _joined(run: list[tuple[float, Event]]) -> tuple[float, Event]:
    at, first = run[0]
    match first:
        case Text():
            return at, Text("".join(event.text for _, event in run if isinstance(event, Text)))
        case Reasoning():
            text = "".join(event.text for _, event in run if isinstance(event, Reasoning))
            return at, msgspec.structs.replace(first, text=text)
        case ToolCallChunk():
            chunks = [event.tool_call_arguments_chunk for _, event in run if isinstance(event, ToolCallChunk)]
            return at, msgspec.structs.replace(first, tool_call_arguments_chunk="".join(chunks))
        case _:
            return at, first


def _masked_event(event: Event, mask: CredentialMask) -> Event:
    data = msgspec.json.encode(event)
    masked = mask.mask(data)
    decoded: Event = event if masked == data else msgspec.json.decode(masked, type=Event)
    return decoded
