"""A part of a text file, from a line and column on.

Rule: memory is bounded by the size of the part, whatever the lines' lengths; the bytes that are read are limited. A
line ends with a line feed, as for Grep; a column counts characters.
"""

import codecs
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from fcshim.errors import ToolError

SCAN_LIMIT = 2**30
"""Bytes that are read to find the part: a second from memory, ten from a slow disk."""
_BLOCK = 64 * 1024
_TEXT_HEAD = 8_192
"""Bytes in which a file that is not text usually has a NUL."""


class NotTextError(Exception):
    """The file is not text."""


class TextExcerpt(msgspec.Struct, frozen=True):
    """The text, and where the file goes on: at a column of a line, or nowhere (`next_line` 0) if it is all."""

    text: str
    next_line: int = 0
    next_column: int = 1


def read_text_part(file: BinaryIO, line: int, column: int, lines: int | None, size: int) -> TextExcerpt:
    """Read at most `lines` lines and `size` characters, cut between lines if more than one fits.

    Raises `NotTextError`, `ToolError` if the line has no such column, or at `SCAN_LIMIT`, and `OSError`.
    """
    blocks = _blocks(file)
    pieces = _characters(_lines_from(blocks, line), column, line)
    text, is_end = _collect(pieces, lines, size)
    if "\0" in text[:_TEXT_HEAD]:
        raise NotTextError
    if is_end and len(text) <= size:
        return TextExcerpt(text)
    end = text.rfind("\n", 0, size) + 1
    if end:
        return TextExcerpt(text[:end], line + text.count("\n", 0, end))
    return TextExcerpt(text[:size], line, column + size)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the file's bytes, up to the limit."""
    left = SCAN_LIMIT
    while block := file.read(_BLOCK):
        if left == SCAN_LIMIT and b"\0" in block[:_TEXT_HEAD]:
            raise NotTextError
        yield block
        left -= len(block)
        if left <= 0:
            raise ToolError(f"the part is not in the first {SCAN_LIMIT} bytes, which is as far as Read looks.")


def _lines_from(blocks: Iterator[bytes], line: int) -> Iterator[bytes]:
    """Yield the bytes from the start of a line on."""
    before = line - 1
    for block in blocks:
        if before:
            count = block.count(b"\n")
            if count < before:
                before -= count
                continue
            block = block.split(b"\n", before)[-1]  # noqa: PLW2901 - the rest of it
            before = 0
        yield block


def _characters(blocks: Iterator[bytes], column: int, line: int) -> Iterator[str]:
    """Yield the text from a column of its first line on; bytes that are not UTF-8 become U+FFFD."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    before = column - 1
    for block in blocks:
        text = decode(block)
        if before:
            skipped = text[:before]
            if "\n" in skipped:
                raise ToolError(f"line {line} ends at column {column - before + skipped.index(chr(10))}.")
            before -= len(skipped)
            text = text[len(skipped) :]
        yield text
    yield decode(b"", final=True)


def _collect(pieces: Iterator[str], lines: int | None, size: int) -> tuple[str, bool]:
    """Join pieces until there are so many lines, or more characters; return whether the text is complete."""
    parts: list[str] = []
    length = 0
    for piece in pieces:
        if lines is not None:
            found = piece.split("\n", lines)
            if len(found) > lines:
                parts += ["\n".join(found[:-1]), "\n"]
                return "".join(parts), True
            lines -= len(found) - 1
        parts.append(piece)
        length += len(piece)
        if length > size:
            return "".join(parts), False
    return "".join(parts), True
