"""Attaches the files that the user names in a question, `@src/a.py` or `@"a file.txt"`.

Rule: only files of the conversation's folder that no rule forbids to read, with the limits of the tool Read. The screen
names every file that is sent, and every one that is not.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec

from fcshim.errors import ToolError
from fcshim.messages import Content, MediaPart, Part, TextPart
from fcshim.tools import Permissions
from fcshim.tools.builtin import Files, Workspace
from fcshim.tools.result import ToolResult

_MENTION = re.compile(r'(?<![^\s(])@(?:"([^"\n]+)"|([^\s"]+))')
_PUNCTUATION = ".,;:!?)"
_MOST = 10
"""Files of one question: pasted code has many words that begin with @."""
_CHARACTERS = 256 * 1024
"""Characters of all files of one question: more than the context of most models."""
_ENTRIES = 1_000
"""Entries of a folder that completion reads and offers."""


class Attached(msgspec.Struct, frozen=True):
    """A question with the files that it names, and a line for the user about each of them."""

    content: tuple[Part, ...]
    notes: tuple[str, ...] = ()


class Attachments:
    """The files of a folder; `image_refusal` is the reason why a picture would not reach the model, empty if it may."""

    def __init__(self, folder: Path, permissions: Permissions, image_refusal: Callable[[], Awaitable[str]]) -> None:
        self._workspace = Workspace(folder)
        self._files = Files(self._workspace)
        self._permissions = permissions
        self.image_refusal = image_refusal

    async def attach(self, text: str) -> Attached:
        """Read the files that a question names."""
        parts: list[Part] = [TextPart(text)]
        notes: list[str] = []
        missing: list[str] = []
        left = _CHARACTERS
        for mention in _mentions(text):
            if (name := self._existing(mention)) is None:
                missing.append(f"@{mention}")
                continue
            try:
                part, size = await asyncio.to_thread(self._read, name)
            except ToolError as error:
                notes.append(f"@{name} is not sent: {error.message}")
                continue
            if isinstance(part, MediaPart) and (why := await self.image_refusal()):
                notes.append(f"@{name} is not sent: {why}")
            elif isinstance(part, TextPart) and len(part.text) > left:
                notes.append(f"@{name} is not sent: the files of a question have {_CHARACTERS:,} characters at most")
            else:
                left -= len(part.text) if isinstance(part, TextPart) else 0
                parts.append(part)
                notes.append(f"@{name} is sent: {size}")
        if missing:
            notes.append(f"there is no such file here, so it is only a word: {', '.join(missing)}")
        return Attached(tuple(parts), tuple(notes))

    def complete(self, begun: str) -> list[str]:
        """Return the paths that begin with the text; a folder ends with a slash."""
        folder, _, start = begun.rpartition("/")
        try:
            place = self._workspace.existing_folder(f"{folder}/" if folder or begun.startswith("/") else ".")
            entries = [entry for entry, _ in zip(place.iterdir(), range(_ENTRIES), strict=False)]
        except (ToolError, OSError):
            return []
        prefix = begun[: len(begun) - len(start)]
        return sorted(
            f"{prefix}{entry.name}{'/' if entry.is_dir() else ''}"
            for entry in entries
            if entry.name.startswith(start)
            and (start or not entry.name.startswith("."))
            and entry.name.isprintable()
            and '"' not in entry.name
            and not self._permissions.forbids_reading(entry, self._workspace.root)
        )

    def _existing(self, mention: str) -> str | None:
        """Return the name of an existing file or folder, without punctuation that ends the sentence."""
        for name in (mention, mention.rstrip(_PUNCTUATION)):
            try:
                if name and (self._workspace.root / name).expanduser().exists():
                    return name
            except (OSError, RuntimeError, ValueError):
                continue
        return None

    def _read(self, name: str) -> tuple[Part, str]:
        """Return the content of a file, or the list of a folder, and how much it is. Raises `ToolError`."""
        path = self._workspace.resolve(name)
        if self._permissions.forbids_reading(path, self._workspace.root):
            raise ToolError("a --deny rule forbids reading it.")
        if path.is_dir():
            entries = self._files.list_dir(name)
            return TextPart(f"\n\nThe folder {name}:\n{entries}\n", document=True), _lines(entries)
        read = self._files.read(name)
        if isinstance(read, ToolResult):
            (picture,) = read.content
            assert isinstance(picture, MediaPart)
            return picture, picture.media_type
        return TextPart(f"\n\nThe file {name}:\n{read}\n(end of {name})\n", document=True), _lines(read)


def has_images(content: Content) -> bool:
    """Return whether there are pictures in a message."""
    return any(isinstance(part, MediaPart) for part in content)


def _mentions(text: str) -> Iterator[str]:
    """Yield the different names that a text mentions."""
    found = dict.fromkeys(quoted or plain for quoted, plain in _MENTION.findall(text))
    yield from list(found)[:_MOST]


def _lines(text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n"))
    return f"{lines:,} line{'' if lines == 1 else 's'}"
