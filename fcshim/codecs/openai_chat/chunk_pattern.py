"""What stands around the text in the chunks of one stream: nearly always the same bytes, by which a chunk is known.

Rule: a frame is proven before it is used: whatever JSON string stands in it, the chunk says that text and nothing else.
Neighbours: the decoder looks for a frame in what it has read, and reads by it what comes next.
"""

import re

import msgspec

from fcshim.codecs.openai_chat.wire import read_plain_chunk

_CONTENT_FIELD = re.compile(rb'"content" ?: ?"')


class ChunkPattern(msgspec.Struct, frozen=True, gc=False):
    """`data[start:stop]` is the JSON string with the text if `data` begins with `before` and ends with `after`.

    Both have their quotation mark, so that an overlap leaves no JSON string between them.
    """

    prefix: bytes
    suffix: bytes
    start: int
    stop: int
    choice: int


read_string = msgspec.json.Decoder(str).decode
"""Read one JSON string. Raises `ValueError`."""


class ChunkPatternFinder:
    """Finds the frame of one stream: it counts once two chunks in a row have had it."""

    __slots__ = ("_last_affixes", "_pattern")

    def __init__(self) -> None:
        self._last_affixes = (b"", b"")
        self._pattern: ChunkPattern | None = None

    def find(self, data: bytes) -> ChunkPattern | None:
        """Look at an event of one line; where its text has a quotation mark, the next one will do."""
        found = _CONTENT_FIELD.search(data)
        end = data.find(b'"', found.end()) if found is not None else -1
        if found is None or end < 0:
            return None
        around = data[: found.end()], data[end:]
        if around != self._last_affixes:
            self._last_affixes, self._pattern = around, None
        elif self._pattern is None:
            self._pattern = _verify_pattern(*around, data[found.end() : end])
        return self._pattern


def _verify_pattern(prefix: bytes, suffix: bytes, text: bytes) -> ChunkPattern | None:
    """Make the frame if with another text the chunk's content is another: then this string, and no other, is it."""
    said, longer = _read_text_only(prefix + text + suffix), _read_text_only(prefix + text + b"." + suffix)
    if said is None or longer is None or longer[1] != said[1] + ".":
        return None
    return ChunkPattern(prefix, suffix, len(prefix) - 1, 1 - len(suffix), said[0])


def _read_text_only(event: bytes) -> tuple[int, str] | None:
    """Give choice and text of a chunk that holds nothing else."""
    chunk = read_plain_chunk(event[6:-2])
    if chunk is None or len(chunk.choices) != 1:
        return None
    (choice,) = chunk.choices
    if choice.finish_reason is not None or choice.delta.content is None:
        return None
    return choice.index, choice.delta.content
