"""The captured bytes of one upstream reply, decoded on request.

Rule: `pieces` are what the model wrote, in its order, each with its time; `events` are what the client got.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from fcshim.codecs.base import Decoder, UpstreamCodec
from fcshim.codecs.prompt_progress import PromptProgress
from fcshim.config.credentials import CredentialMask
from fcshim.errors import FcshimError
from fcshim.events import Event, Reasoning, Text, ToolCallChunk, ToolCallStart
from fcshim.server.kept_replies import ChunkLog

PieceKind = Literal["text", "reasoning", "name", "arguments"]


class Piece(NamedTuple):
    """The content of one chunk: `text` is still to be parsed, the upstream has separated the other kinds."""

    at: float
    kind: PieceKind
    text: str


class DecodedReply(msgspec.Struct, frozen=True):
    """One choice of one reply."""

    choice: int
    pieces: list[Piece]
    events: list[tuple[float, Event]]


TimedEvent = tuple[float, int, Event]
"""An event with its time and its choice."""


def decode_reply(codec: UpstreamCodec, log: ChunkLog) -> list[DecodedReply]:
    """Decode what was captured so far, each choice; what cannot be decoded ends the pieces."""
    written, delivered = _by_choice(decoded_events(codec.decoder(), log.chunks())), _by_choice(log.events())
    return [
        DecodedReply(choice, list(_pieces(written.get(choice, ()))), delivered.get(choice, []))
        for choice in sorted({0, *written, *delivered})
    ]


def delivered_replies(log: ChunkLog) -> list[DecodedReply]:
    """Return the events that the client got for a reply, for each choice."""
    return [DecodedReply(choice, [], events) for choice, events in sorted(_by_choice(log.events()).items())]


def find_progress(codec: UpstreamCodec, log: ChunkLog) -> PromptProgress | None:
    """Return how far the server has read the prompt, if it has said so and nothing of the reply has come."""
    decoder = codec.decoder()
    try:
        has_begun = any(decoder.feed(data) for _, data in log.chunks())
    except FcshimError:
        return None
    return None if has_begun else decoder.progress


def relayed_reply(decoder: Decoder, sent: Sequence[tuple[float, bytes]]) -> list[DecodedReply]:
    """Decode a relayed response, for each choice: the client got what the model wrote."""
    found = _by_choice(decoded_events(decoder, sent))
    return [DecodedReply(choice, list(_pieces(events)), events) for choice, events in sorted(found.items())]


def decoded_events(decoder: Decoder, data: Iterable[tuple[float, bytes]]) -> list[TimedEvent]:
    """Decode the bytes of a body with their times, up to the first that cannot be decoded."""
    result: list[TimedEvent] = []
    last = 0.0
    try:
        for last, each in data:
            result += [(last, choice, event) for choice, event in decoder.feed(each)]
        if not decoder.ended:
            result += [(last, choice, event) for choice, event in decoder.close()]
    except FcshimError:
        return result
    return result


def _by_choice(events: Iterable[TimedEvent]) -> dict[int, list[tuple[float, Event]]]:
    result: dict[int, list[tuple[float, Event]]] = {}
    for at, choice, event in events:
        result.setdefault(choice, []).append((at, event))
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


def masked_reply(reply: DecodedReply, mask: CredentialMask) -> DecodedReply | None:
    """Return the reply without credentials, its pieces and events joined; None if it has none."""
    if not mask.is_needed:
        return None
    pieces, events = list(_joined_pieces(reply.pieces)), list(_joined_events(reply.events))
    masked_pieces = [piece._replace(text=mask.mask_text(piece.text)) for piece in pieces]
    masked_events: list[tuple[float, Event]] = []
    for at, event in events:
        data = msgspec.json.encode(event)
        masked = mask.mask(data)
        masked_events.append((at, event if masked == data else msgspec.json.decode(masked, type=Event)))
    if masked_pieces == pieces and masked_events == events:
        return None
    return DecodedReply(reply.choice, masked_pieces, masked_events)


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
        if run and not (isinstance(event, Text | Reasoning | ToolCallChunk) and type(event) is type(run[-1][1])):
            yield _joined(run)
            run = []
        run.append((at, event))
    if run:
        yield _joined(run)


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
