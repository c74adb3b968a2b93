"""Recognise the dialect's own tags where one character of them is missing, superfluous or wrong.

Theory of operation. A damaged tag is not markup, so that it becomes content of a value: the value runs on, up to the
next marker. Such a value has two readings. Tags of other names (`</div>`) are content like any other text.

Rule: only where a tag would stand: a damaged closing tag before a marker or at the end of an unclosed value, a damaged
opening after a closing tag.
"""

import html
import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from fcshim.parse.markers import begins_damaged, escaped_once, is_damaged
from fcshim.parse.tagged.tags import CompiledTags

_SPACE = " \t\r\n"
_LOST_BYTES = "\ufffd"
_SHORTEST_PIECE = 2
"""Characters of a piece of a tag, and the characters beside a damaged tag that are looked at."""
_MUCH_ALIKE = 0.75
"""The share of common characters from which text is rather a damaged tag: two of ten may be wrong."""
_LONGEST_OPENING = 256
_LONGEST_ENTITY = 8
_SHORTEST_TOKEN = 4
"""A shorter token or closing tag (of a custom dialect) is content of many texts with a character more or less."""

_JSON_PAIRS = {"}": "{", "]": "["}

_DAMAGED_REST_OF_TAG = r"(?:(?!<).?<?[^<>\s]{1,256}>|</?[^<>\s]{1,256}&(?:gt|#62);|</[^<>]{0,64}[A-Z])"
"""The rest of a tag after its token: with a wrong bracket, an escaped one, or the name in capitals."""


def has_damaged_close(value: str, compiled: CompiledTags, *, unclosed: bool) -> bool:
    """Return whether a value has its closing tag damaged, before a marker or, if it is `unclosed`, at its end."""
    close = compiled.tags.parameter_close
    if len(close) < _SHORTEST_TOKEN:
        return False
    bare = value.rstrip(_SPACE + _LOST_BYTES)
    if unclosed and (_ends_like(bare, close) or _ends_with_opening(bare, compiled) or _ends_like_json(bare)):
        return True
    if not unclosed and bare.endswith(compiled.tags.call_close) and len(compiled.tags.call_close) >= _SHORTEST_TOKEN:
        return True
    return any(_ends_with_damaged(value, end, close) for end in _tag_ends(value, compiled))


def has_damaged_open(value: str, opening: str) -> bool:
    """Return whether a value begins with its opening tag damaged, or contains it."""
    opening, start = opening.lower(), value[: len(opening) + _SHORTEST_PIECE].lower()
    return bool(opening) and (
        opening in value.lower()
        or html.unescape(start + value[len(start) : len(start) + _LONGEST_ENTITY]).lower().startswith(opening)
        or start.startswith(opening[0])
        or any(start.startswith(opening[-size:]) for size in range(1, len(opening)))
        or SequenceMatcher(None, start, opening, autojunk=False).ratio() >= _MUCH_ALIKE
    )


def begins_like_opening(text: str, pos: int, opening: str) -> bool | None:
    """Return whether text much like an opening tag is at `pos`; None where more text is needed."""
    if text[pos : pos + 1] not in {"", opening[0]} or text[pos + 1 : pos + 2] == "/":
        return begins_damaged(text, pos, opening)
    found, size = text[pos : pos + len(opening) + _SHORTEST_PIECE], (len(opening) + 1) // 2
    if len(found) < len(opening) + _SHORTEST_PIECE:
        return True if len(found) >= size and found.startswith(opening[:size]) else None
    if found.startswith(escaped_once(opening)):
        return False
    alike = SequenceMatcher(None, found, opening, autojunk=False).ratio() >= _MUCH_ALIKE
    return alike or found.startswith(opening[:size]) or begins_damaged(text, pos, opening)


def _ends_like(value: str, close: str) -> bool:
    """Return whether a value without its closing tag ends with a piece of that tag, or with text much like it."""
    if value.endswith((escaped_once(close), close)):
        return False
    close = close.lower()
    tail = value[-len(close) - _SHORTEST_PIECE :].lower()
    return (
        tail.endswith(close[-1])
        or any(tail.endswith(close[:size]) for size in range(1, len(close)))
        or SequenceMatcher(None, tail, close, autojunk=False).ratio() >= _MUCH_ALIKE
        or _ends_with_damaged(value, len(value), close)
    )


def _ends_with_opening(value: str, compiled: CompiledTags) -> bool:
    """Return whether a value ends with an opening tag in the place of the closing one."""
    tag = compiled.tags.parameter
    return value.endswith(compiled.start_markers) or (value.endswith(tag.end) and tag.head in value[-_LONGEST_OPENING:])


def _ends_like_json(value: str) -> bool:
    """Return whether a value ends with a bracket or quote that nothing in it opened: rather the end of JSON."""
    last = value[-1:]
    if last == '"':
        return value.count(last) % 2 == 1
    return last in _JSON_PAIRS and value.count(last) > value.count(_JSON_PAIRS[last])


def _ends_with_damaged(value: str, end: int, close: str) -> bool:
    """Return whether a value ends with its closing tag damaged."""
    if value.endswith(close, 0, end):
        return False
    if any(value.endswith(half, 0, end) for half in (close[:-1] + "&gt;", close[:-1] + "&#62;", "&lt;" + close[1:])):
        return True
    sizes = range(len(close) - 1, len(close) + 2)
    return any(is_damaged(value[max(0, end - size) : end].lower(), close.lower()) for size in sizes)


def _tag_ends(value: str, compiled: CompiledTags) -> Iterator[int]:
    """Return where a closing tag would end: before each marker and the white space before it."""
    start = 0
    for found in compiled.value_markers.search_all(value):
        yield start + len(value[start : found.start()].rstrip(_SPACE))
        start = found.end()


def holds_damaged_tag(text: str, head: str) -> bool:
    """Return whether a tag whose head begins with a reserved token is damaged in it, or lacks its bracket."""
    token = head[:-1]
    return len(token) >= _SHORTEST_TOKEN and (
        re.search(re.escape(token) + _DAMAGED_REST_OF_TAG, text) is not None
        or f"{token[-1]}</" in text.replace(token, "").replace(escaped_once(token), "")
        or _holds_damaged(text, token)
    )


def _holds_damaged(text: str, marker: str) -> bool:
    """Return whether a damaged marker is anywhere in a text: one half of it is whole."""
    text, half = text.replace(marker, "\0").replace(escaped_once(marker), "\0").lower(), len(marker) // 2
    marker = marker.lower()
    starts = [found - shift for shift in (-1, 0, 1) for found in _find_all(text, marker[half:], half)]
    starts += _find_all(text, marker[:half], 0)
    return any(begins_damaged(text, start, marker) for start in starts if start >= 0)


def _find_all(text: str, part: str, offset: int) -> list[int]:
    return [found.start() - offset for found in re.finditer(re.escape(part), text)]
