"""The tools Read, Write, Edit and ListDir.

Rule: reads are bounded, writes are atomic, and an edit whose text does not match exactly changes nothing. The memory of
a read is bounded by the size of the part that is read, whatever the lines' lengths, and the bytes that are read are
limited. A line ends with a line feed, as for Grep; a column counts characters.
"""

import base64
import codecs
import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from fcshim.errors import ToolError
from fcshim.events import JSON
from fcshim.messages import MediaPart
from fcshim.tools.base import FileChange, Traits
from fcshim.tools.builtin.workspace import Workspace
from fcshim.tools.function import FunctionTool
from fcshim.tools.result import ToolResult

READ_LIMIT = 128 * 1024
"""Characters of one read: more than any model reads well."""
SMALL_READ_LIMIT = 48 * 1024
"""The same where the reader is another program, such as a host of MCP servers: most cut longer results."""
_HINT_SIZE = 1_000
"""Characters that an appended hint may take."""
_MAX_NUMBER = 10**9
"""The greatest line, column or number of lines: more than a file has that can be read."""
FILE_LIMIT = 10 * 2**20
"""Bytes of a file; a larger one can only be read in parts, and not be edited."""
SCAN_LIMIT = 2**30
"""Bytes that are read to find a part of a file: a second from memory, ten from a slow disk."""
_BLOCK = 64 * 1024
_TEXT_HEAD = 8_192
"""Bytes in which a file that is not text usually has a NUL."""
_IMAGE_LIMIT = 5 * 2**20
"""Bytes of an image, as most providers accept."""
_MAX_ENTRIES = 1_000
_MAX_SORTED = 200_000
"""Entries of a folder that are sorted: reading a folder with millions takes minutes."""
_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}

WorkspacePath = Annotated[str, "path, from the workspace"]


class Files:
    """The tools that read and write single files of a workspace; one read returns `read_limit` characters at most."""

    def __init__(self, workspace: Workspace, *, read_limit: int = READ_LIMIT) -> None:
        self._workspace = workspace
        self._read_limit = read_limit

    def tools(self) -> list[FunctionTool]:
        """Return the tools."""
        path = Traits(subject="path", subject_kind="path", root=self._workspace.root, source="builtin:files")
        reads = msgspec.structs.replace(
            path, sensitivity="safe", reads_only=True, ruled_as=("Read",), max_output=self._read_limit + _HINT_SIZE
        )
        writes = msgspec.structs.replace(path, sensitivity="edit", parallel=False, ruled_as=("Write", "Edit"))
        return [
            FunctionTool(self.read, name="Read", traits=reads),
            FunctionTool(
                self.write, name="Write", traits=msgspec.structs.replace(writes, change=self._change_by_write)
            ),
            FunctionTool(self.edit, name="Edit", traits=msgspec.structs.replace(writes, change=self._change_by_edit)),
            FunctionTool(self.list_dir, name="ListDir", traits=reads),
        ]

    def read(
        self, path: str, offset: int | None = None, limit: int | None = None, column: int | None = None
    ) -> str | ToolResult:
        """Read a file. A part of it, where offset or limit are given; pictures are shown.

        Args:
            path: from the workspace
            offset: number of the first line, from 1
            limit: how many lines
            column: number of the first character in that line, from 1, for lines too long for one read
        """
        file = self._workspace.existing_file(path)
        if file.suffix.lower() in _IMAGES:
            return _read_image(file)
        first = _checked_number("offset", offset or None, "a line, from 1") or 1
        start = _checked_number("column", column or None, "a character of the line, from 1") or 1
        lines = _checked_number("limit", limit, "lines, from 1")
        with _tool_errors(path), file.open("rb") as content:
            size = os.fstat(content.fileno()).st_size
            if (offset, limit, column) == (None, None, None) and size > FILE_LIMIT:
                raise ToolError(f"{path} has {size} bytes; read a part of it with offset and limit.")
            try:
                part = read_text_part(content, first, start, lines, self._read_limit)
            except NotTextError:
                raise ToolError(f"{path} is not a text file.") from None
            except ToolError as error:
                raise ToolError(f"{path}: {error.message}") from None
        if not part.text:
            place = f"line {first}" if start == 1 else f"column {start} in line {first}"
            return "(empty)" if first == start == 1 else f"({path} has no {place})"
        if not part.next_line:
            return part.text
        if part.next_column == 1:
            return f"{part.text}(truncated after line {part.next_line - 1}; read on with offset {part.next_line})"
        return (
            f"{part.text}\n(truncated after character {part.next_column - 1} of line {part.next_line}; "
            f"read on with offset {part.next_line} and column {part.next_column})"
        )

    def write(self, path: WorkspacePath, content: str) -> str:
        """Create or replace a file; missing folders are created."""
        file = self._workspace.resolve(path)
        if file.is_dir():
            raise ToolError(f"{path} is a folder.")
        existed = file.exists()
        with _tool_errors(path):
            file.parent.mkdir(parents=True, exist_ok=True)
            _write_atomically(file, content.encode(errors="surrogatepass"))
        return f"{'Replaced' if existed else 'Created'} {path} ({len(content)} characters)."

    def edit(self, path: str, old_string: str, new_string: str, *, replace_all: bool = False) -> str:
        """Replace a piece of a file's text, which must be there exactly as given, and once unless replace_all is set.

        Args:
            path: from the workspace
            old_string: the text to replace, with its white space
            new_string: the text to put in its place
            replace_all: replace it wherever it stands
        """
        file = self._workspace.existing_file(path)
        text = _text_to_edit(file, path)
        after, count = _replace_text(text, path, old_string, new_string, replace_all=replace_all)
        with _tool_errors(path):
            _write_atomically(file, after.encode())
        return f"Replaced {count} {'place' if count == 1 else 'places'} in {path}."

    def _change_by_write(self, arguments: Mapping[str, JSON]) -> FileChange | None:
        """Return the change that a call of Write makes to a file; None if it creates one."""
        path = str(arguments["path"])
        file = self._workspace.resolve(path)
        with _tool_errors(path):
            if file.is_dir():
                raise ToolError(f"{path} is a folder.")
            if not file.exists():
                return None
            data = _read_whole(file, FILE_LIMIT) if file.is_file() else None
        return FileChange(path, _decoded(data), str(arguments["content"]), ("content",))

    def _change_by_edit(self, arguments: Mapping[str, JSON]) -> FileChange:
        """Return the change that a call of Edit makes to a file."""
        path, old, new = (str(arguments[name]) for name in ("path", "old_string", "new_string"))
        before = _text_to_edit(self._workspace.existing_file(path), path)
        after, _ = _replace_text(before, path, old, new, replace_all=bool(arguments.get("replace_all")))
        return FileChange(path, before, after, ("old_string", "new_string"))

    def list_dir(self, path: WorkspacePath = ".") -> str:
        """List a folder: folders end with a slash, files come with their size in bytes."""
        with _tool_errors(path), os.scandir(self._workspace.existing_folder(path)) as listed:
            entries = list(itertools.islice(listed, _MAX_SORTED + 1))
        shown = sorted(entries[:_MAX_SORTED], key=lambda entry: (not entry.is_dir(), entry.name))[:_MAX_ENTRIES]
        lines = [_entry(entry) for entry in shown]
        if len(entries) > _MAX_SORTED:
            lines.append(f"(more than {_MAX_SORTED - len(shown)} more)")
        elif len(entries) > _MAX_ENTRIES:
            lines.append(f"({len(entries) - _MAX_ENTRIES} more)")
        return "\n".join(lines) or "(empty)"


def _entry(entry: "os.DirEntry[str]") -> str:
    if entry.is_dir():
        return f"{entry.name}/"
    try:
        return f"{entry.name}  {entry.stat().st_size}"
    except OSError:
        return f"{entry.name}  (broken link)"


def _checked_number(name: str, value: int | None, expected: str) -> int | None:
    """Return a number. Raises `ToolError` for one that no file has."""
    if value is not None and not 0 < value <= _MAX_NUMBER:
        raise ToolError(f"{name}: expected the number of {expected} to {_MAX_NUMBER}, got {str(value)[:40]}")
    return value


def _read_image(file: Path) -> ToolResult:
    with _tool_errors(file.name):
        data = _read_whole(file, _IMAGE_LIMIT)
    if data is None:
        raise ToolError(f"{file.name} is larger than {_IMAGE_LIMIT} bytes, too large a picture to show.")
    return ToolResult((MediaPart(_IMAGES[file.suffix.lower()], data=base64.b64encode(data).decode()),))


def _text_to_edit(file: Path, path: str) -> str:
    """Return the text of a file. Raises `ToolError` if it is too large, or not text."""
    with _tool_errors(path):
        data = _read_whole(file, FILE_LIMIT)
        if data is None:
            raise ToolError(f"{path} is too large to edit: expected at most {FILE_LIMIT} bytes.")
        return data.decode()


def _read_whole(file: Path, limit: int) -> bytes | None:
    """Return the bytes of a file; None for more than `limit`, whatever size the system reports."""
    with file.open("rb") as content:
        data = content.read(limit + 1)
    return data if len(data) <= limit else None


def _decoded(data: bytes | None) -> str | None:
    """Return a file's text; None if it is not text that can be compared."""
    try:
        return None if data is None or b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def _replace_text(text: str, path: str, old: str, new: str, *, replace_all: bool) -> tuple[str, int]:
    """Return the text with a piece of it replaced, and how often.

    Raises `ToolError` if the piece does not match as asked.
    """
    if "\r\n" in text and old not in text:  # models write line feeds
        old, new = old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    count = text.count(old) if old else 0
    if not old or old == new:
        raise ToolError("old_string is empty." if not old else "old_string and new_string are the same.")
    if count == 0:
        raise ToolError(f"old_string is not in {path}. Read the file and copy the text exactly.")
    if count > 1 and not replace_all:
        raise ToolError(f"old_string is in {path} {count} times. Give more of the text around it, or replace_all.")
    return text.replace(old, new), count


def _write_atomically(file: Path, data: bytes) -> None:
    """Write a temporary file beside the target and rename it, with the target's permissions."""
    if file.exists():
        mode = file.stat().st_mode & 0o7777
    else:
        umask = os.umask(0o022)  # it can only be read by setting it
        os.umask(umask)
        mode = 0o666 & ~umask
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(temporary).chmod(mode)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _tool_errors(path: str) -> Iterator[None]:
    """Convert system errors to `ToolError`."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is not UTF-8 text.") from error
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror or error}") from error


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
