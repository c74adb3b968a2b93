"""Helpers of the codec tests: bodies split in every way, events with adjacent fragments merged and ids normalised."""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator

from fcshim.codecs.base import Codec
from fcshim.codecs.openai_chat import OpenAIChat
from fcshim.events import JSON, Event, Reasoning, Text, ToolCallChunk, event_to_dict


def decode_body(pieces: Iterable[bytes], codec: Callable[..., Codec] = OpenAIChat) -> list[tuple[int, Event]]:
    """Decode a body that is split into these pieces; ids that the upstream omitted become new_0, new_1, ..."""
    decoder = codec(new_id=map("new_{}".format, itertools.count()).__next__).decoder()
    found = [item for piece in pieces for item in decoder.feed(piece)]
    return merge_events(found + decoder.close())


def merge_events(found: Iterable[tuple[int, Event]]) -> list[tuple[int, Event]]:
    """Merge adjacent events of the same kind in each choice, and drop empty ones."""
    result: dict[int, list[Event]] = {}
    for choice, event in found:
        events = result.setdefault(choice, [])
        joined = _merge_pair(events[-1], event) if events else None
        if joined is not None:
            events[-1] = joined
        elif not _is_empty(event):
            events.append(event)
    return [(choice, event) for choice in sorted(result) for event in result[choice]]


def _is_empty(event: Event) -> bool:
    return isinstance(event, Text | Reasoning) and not event.text and not getattr(event, "signature", None)


def _merge_pair(first: Event, second: Event) -> Event | None:
    match first, second:
        case Text(), Text():
            return Text(first.text + second.text)
        case Reasoning(signature=None), Reasoning():
            return Reasoning(first.text + second.text, second.signature)
        case ToolCallChunk(), ToolCallChunk() if first.index == second.index:
            arguments = first.tool_call_arguments_chunk + second.tool_call_arguments_chunk
            return ToolCallChunk(first.tool_call_id, arguments, first.index)
    return None


def to_vector(found: Iterable[tuple[int, Event]]) -> list[list[JSON]]:
    """Return events in the form of the vectors: each with its choice, without fields that have default values."""
    return [[choice, _drop_defaults(event_to_dict(event))] for choice, event in found]


def _drop_defaults(event: dict[str, JSON]) -> dict[str, JSON]:
    return {name: value for name, value in event.items() if value not in (None, [])}


def cut_variants(body: bytes, seed: int = 0) -> Iterator[list[bytes]]:
    """Yield the body whole, byte by byte, and split at random positions."""
    yield [body]
    yield [body[at : at + 1] for at in range(len(body))]
    random_ = random.Random(seed)
    for most in (3, 40, 500):
        yield cut(body, lambda most=most: random_.randint(1, most))


def cut(body: bytes, size) -> list[bytes]:
    """Split the body into pieces of the sizes that `size()` returns."""
    result, at = [], 0
    while at < len(body):
        step = size()
        result.append(body[at : at + step])
        at += step
    return result
