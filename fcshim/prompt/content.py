"""Converts the contents of messages: escapes, joins and shortens texts, replaces media, and caches the results.

Rule: adjacent text parts are always joined before they are escaped, since a marker could be split over two of them. A
long result is shortened to its start and end, depending only on the text and the limit, so that every request writes it
the same way. A client sends the whole conversation again with each turn, so results are cached. The key of a result has
everything that the result depends on, texts included, so that requests can share it. A result is immutable, and the
size of all texts is limited. Keys and results hold no objects that the garbage collector visits: with a full cache it
would stop all streams for some 10 ms each time.
"""

import functools
import itertools
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from fcshim.messages import Content, MediaPart, TextPart, Tool, has_media_part, placeholder, text_of
from fcshim.prompt.escape import MarkerEscaper

MAX_BYTES = 16 * 1024 * 1024
"""The conversations of some 40 coding agents at 200 KB, each text as the client sent it and as the model gets it; a
fifth of the memory that the proxy may take in all."""


Atom = str | bytes | int | bool
"""A part of a key: the garbage collector does not visit it."""


class ContentCache:
    """Results by their keys: those of the last `max_bytes`, at most.

    Two generations: a result that is used stays in the newer one, and the older one is dropped when that is full.
    It needs no lock: two threads at once may at worst count one result less, or drop a generation too early.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._limit = max_bytes // 2
        self._size = 0  # of the newer generation
        self._newer: dict[Hashable, tuple[Any, int]] = {}
        self._older: dict[Hashable, tuple[Any, int]] = {}

    def get(self, key: Hashable) -> Any:
        """Return the result with this key, or None."""
        found = self._newer.get(key)
        if found is None:
            found = self._older.get(key) if self._older else None
            if found is None:
                return None
            self._put(key, *found)
        return found[0]

    def put(self, key: Hashable, result: Any, texts: Iterable[Atom]) -> None:
        """Remember a result; `texts` are those in the key and the result, of which its size is counted."""
        self._put(key, result, _OVERHEAD + sum(map(sys.getsizeof, texts)))

    def _put(self, key: Hashable, result: Any, size: int) -> None:
        if size > self._limit:
            return
        if self._size + size > self._limit:
            self._older, self._newer, self._size = self._newer, {}, 0
        count = len(self._newer)
        self._newer[key] = result, size
        if len(self._newer) > count:
            self._size += size


def json_key(value: object) -> bytes | None:
    """Return a JSON value as bytes, for a key; None if it cannot be written."""
    try:
        return msgspec.json.encode(value)
    except (RecursionError, TypeError, ValueError):
        return None


_numbers = itertools.count()


@functools.lru_cache(maxsize=1_024)
def number_of(*values: Hashable) -> int:  # noqa: ARG001  # its arguments are the key
    """Return a number that identifies these values in keys; different values have different numbers."""
    return next(_numbers)


_OVERHEAD = 1_000
"""Bytes of an entry and its objects without their texts."""

TEXT_CACHE = ContentCache()
"""The written texts of messages and tools, shared by all requests."""


Result = TypeVar("Result")

DEFAULT_MAX_RESULT = 64 * 1024
"""Characters of one result, about 16,000 tokens: half of the context with which local models are usually run. A longer
result leaves too little context for the reply, and an engine that shifts its context drops the tools from it."""


class Escaper:
    """Escapes the texts of one request and records whether any of them changed."""

    def __init__(self, markers: MarkerEscaper) -> None:
        self.markers = markers
        self.changed = False
        self._number = number_of(markers)
        self._tools: Sequence[Tool] | None = None
        self._tools_key: bytes | None = None

    def __call__(self, text: str) -> str:
        """Return the escaped text."""
        escaped = self.markers.escape(text)
        self.changed = self.changed or escaped != text
        return escaped

    def key_of(self, tools: Sequence[Tool]) -> bytes | None:
        """Return the key of the request's tools, which is made once for the same sequence."""
        if tools is not self._tools:
            self._tools, self._tools_key = tools, json_key(tools)
        return self._tools_key

    def forget_tools(self) -> None:
        """Free the key of the tools: the prompt is written, and the reply may take minutes."""
        self._tools = self._tools_key = None

    def has_nothing_to_escape(self, texts: Iterable[str]) -> bool:
        """Return true only if escaping changes none of the texts; as fast as escaping the joined texts."""
        return not self.markers.may_change(texts)

    def cached(
        self,
        parts: tuple[Atom, ...],
        write: Callable[[], Result],
        texts: Callable[[Result], Iterable[str]],
        *,
        keep: Callable[[], bool] = lambda: True,
    ) -> Result:
        """Return the result of `write`, from the cache if an escaper of the same markers has written the same parts.

        `texts` are those of the result. If `keep` returns false afterwards, the result is not cached.
        """
        key = (self._number, *parts)
        found = TEXT_CACHE.get(key)
        if found is None:
            changed, self.changed = self.changed, False
            result = write()
            found = result, self.changed
            self.changed = changed
            if keep():
                TEXT_CACHE.put(key, found, (*key, *texts(result)))
        self.changed = self.changed or found[1]
        written: Result = found[0]
        return written


def cached_content(content: Content, escape: Escaper, *, media: bool = True) -> Content:
    """Do what `escape_content` does, from the cache if the same content was escaped before."""
    if has_media_part(content):  # media are large, and cost nothing to write
        return escape_content(content, escape, media=media)

    return escape.cached(
        ("content", text_of(content)), lambda: escape_content(content, escape), lambda escaped: (text_of(escaped),)
    )


def escape_content(content: Content, escape: Callable[[str], str], *, media: bool = True) -> Content:
    """Join adjacent texts and escape their markers; without `media`, a placeholder text replaces each media part."""
    if len(content) == 1 and isinstance(content[0], TextPart) and content[0].text:  # nearly always
        return (TextPart(escape(content[0].text)),)
    return tuple(
        TextPart(escape(part.text)) if isinstance(part, TextPart) else part
        for part in join_contents([tuple(part if media else as_text_part(part) for part in content)], "")
    )


def as_text_part(part: TextPart | MediaPart) -> TextPart:
    """Return a text part as it is, and a placeholder text for a media part."""
    if isinstance(part, TextPart):
        return part
    return placeholder(part)


def join_contents(contents: Sequence[Content], separator: str) -> Content:
    """Join nonempty contents with a separator; adjacent texts become one part."""
    for content in contents:
        if has_media_part(content):
            return _join_with_media(contents, separator)
    text = separator.join(filter(None, map(text_of, contents)))
    return (TextPart(text),) if text else ()


def _join_with_media(contents: Iterable[Content], separator: str) -> Content:
    parts: list[TextPart | MediaPart] = []
    texts: list[str] = []  # joined once: a turn may have thousands of texts

    def end_text() -> None:
        if texts:
            parts.append(TextPart("".join(texts)))
            texts.clear()

    for content in contents:
        gap = separator if parts or texts else ""
        for part in content:
            if isinstance(part, MediaPart):
                end_text()
                parts.append(part)
            elif part.text:
                texts += (gap, part.text)
            else:
                continue
            gap = ""
    end_text()
    return tuple(parts)


def shorten(text: str, limit: int) -> str:
    """Keep `limit` characters of the text, two thirds from its start and the rest from its end; 0 keeps all."""
    if not limit or len(text) <= limit:
        return text
    tail = limit // 3
    head = limit - tail
    return f"{text[:head]}\n[... {len(text) - limit:,} characters left out ...]\n{text[len(text) - tail :]}"


def shorten_content(content: Content, limit: int) -> Content:
    """Shorten the text of a result; media parts are kept."""
    text = text_of(content)
    if not limit or len(text) <= limit:
        return content
    return (TextPart(shorten(text, limit)), *(part for part in content if isinstance(part, MediaPart)))
