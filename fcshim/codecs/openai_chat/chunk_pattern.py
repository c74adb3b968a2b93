"""The constant bytes around the text in the chunks of one stream, which let the decoder skip parsing the chunk.

In nearly every stream all chunks of text are equal except for the text. Once the prefix and suffix of two chunks in a
row are equal, the decoder parses only the string between them.

Rule: a pattern is verified before it is used: whatever JSON string stands between prefix and suffix, the chunk contains
that text and nothing else.
"""

import re

import msgspec

from fcshim.codecs.openai_chat.wire import read_plain_chunk

_CONTENT_FIELD = re.compile(rb'"content" ?: ?"')


class ChunkPattern(msgspec.Struct, frozen=True, gc=False):
    """`data[start:stop]` is the JSON string with the text if `data` starts with `prefix` and ends with `suffix`.

    Prefix and suffix include the quotation marks, so that if they overlap in `data` the slice is no JSON string.
    """

    prefix: bytes
    suffix: bytes
    start: int
    stop: int
    choice: int


read_string = msgspec.json.Decoder(str).decode
"""Read one JSON string. Raises `ValueError`."""


class ChunkPatternFinder:
    """Finds the pattern of one stream: two successive chunks with the same prefix and suffix."""

    __slots__ = ("_last_affixes", "_pattern")

    def __init__(self) -> None:
        self._last_affixes = (b"", b"")
        self._pattern: ChunkPattern | None = None

    def find(self, data: bytes) -> ChunkPattern | None:
        """Look at an event of one line; return the pattern if it has the same prefix and suffix as the last event.

        An escaped quotation mark inside the text gives a wrong suffix, which `_verify_pattern` rejects.
        """
        found = _CONTENT_FIELD.search(data)
        end = data.find(b'"', found.end()) if found is not None else -1
        if found is None or end < 0:
            return None
        affixes = data[: found.end()], data[end:]
        if affixes != self._last_affixes:
            self._last_affixes, self._pattern = affixes, None
        elif self._pattern is None:
            self._pattern = _verify_pattern(*affixes, data[found.end() : end])
        return self._pattern


def _verify_pattern(prefix: bytes, suffix: bytes, text: bytes) -> ChunkPattern | None:
    """Create the pattern if a change of the string changes the chunk's content: then the string is the content.

    This rejects a `content` field elsewhere in the chunk, and one that a repeated field overrides.
    """
    original, longer = _read_text_only(prefix + text + suffix), _read_text_only(prefix + text + b"." + suffix)
    if original is None or longer is None or longer[1] != original[1] + ".":
        return None
    return ChunkPattern(prefix, suffix, len(prefix) - 1, 1 - len(suffix), original[0])


def _read_text_only(event: bytes) -> tuple[int, str] | None:
    """Return choice index and text of a chunk that contains nothing else."""
    chunk = read_plain_chunk(event[6:-2])
    if chunk is None or len(chunk.choices) != 1:
        return None
    (choice,) = chunk.choices
    if choice.finish_reason is not None or choice.delta.content is None:
        return None
    return choice.index, choice.delta.content
