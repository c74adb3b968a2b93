"""Recognise the dialect's own tags where one character of them is missing, superfluous or wrong.

Theory of operation. A damaged tag is no markup, so that it becomes content of a value: the value runs on, up to the
next marker. Such a value has two readings. Tags of other names (`</div>`) are content like any other text.

Rule: only where a tag would stand: a damaged closing tag before a marker or at the end of an unclosed value, a damaged
opening after a closing tag.
"""

import re
from collections.abc import Iterator

from fcshim.parse.markers import begins_damaged, escaped_once, is_damaged
from fcshim.parse.tagged.tags import CompiledTags

_SPACE = " \t\r\n"
_SHORTEST_TOKEN = 4
"""A shorter token or closing tag (of a custom dialect) is content of many texts with a character more or less."""


def has_damaged_close(value: str, compiled: CompiledTags, *, unclosed: bool) -> bool:
    """Say whether a value contains its closing tag damaged, before a marker or, where it is `unclosed`, at its end."""
    close = compiled.tags.parameter_close
    return len(close) >= _SHORTEST_TOKEN and any(
        is_damaged(value[max(0, end - size) : end], close)
        for end in _tag_ends(value, compiled, unclosed=unclosed)
        if not value.endswith(close, 0, end)
        for size in range(len(close) - 1, len(close) + 2)
    )


def _tag_ends(value: str, compiled: CompiledTags, *, unclosed: bool) -> Iterator[int]:
    """Return where a closing tag would end: before each marker and the white space before it."""
    start = 0
    for found in compiled.value_markers.search_all(value):
        yield start + len(value[start : found.start()].rstrip(_SPACE))
        start = found.end()
    if unclosed:
        yield start + len(value[start:].rstrip(_SPACE))


def holds_damaged_tag(text: str, head: str) -> bool:
    """Say whether a tag whose head begins with a reserved token is damaged in it, or lacks its bracket."""
    token = head[:-1]
    return len(token) >= _SHORTEST_TOKEN and (
        _holds_damaged(text, token) or re.search(rf"{re.escape(token)}(?!<).?<?/?[^<>\s/]{{1,256}}>", text) is not None
    )


def _holds_damaged(text: str, marker: str) -> bool:
    """Say whether a damaged marker is anywhere in a text: one half of it is whole."""
    text, half = text.replace(marker, "\0").replace(escaped_once(marker), "\0"), len(marker) // 2
    starts = [found - shift for shift in (-1, 0, 1) for found in _find_all(text, marker[half:], half)]
    starts += _find_all(text, marker[:half], 0)
    return any(begins_damaged(text, start, marker) for start in starts if start >= 0)


def _find_all(text: str, part: str, offset: int) -> list[int]:
    return [found.start() - offset for found in re.finditer(re.escape(part), text)]
