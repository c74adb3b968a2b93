"""Recognise the dialect's own tags where characters of them are missing, superfluous or wrong.

Theory of operation. A damaged tag is not markup, so that it becomes content of a value: the value runs on, up to the
next marker. Such a value has two readings. Tags of other names (`</div>`) are content like any other text.

Rule: a tag is damaged where one half of it, or its inside, stands outside a whole tag.
"""

import functools
import html
import re

from fcshim.parse.scanner import MoreNeeded
from fcshim.parse.tagged.tag_reading import CompiledTags

_SHORTEST_TAG = 4
"""A half of a shorter tag (of a custom dialect) is content of many texts."""
_LONGEST_ENTITY = 8
_AROUND = " \t\r\n\ufffd"
"""White space, and what a decoder writes for bytes that are no text."""
_JSON_PAIRS = {"}": "{", "]": "["}
_DAMAGED_REST_OF_TAG = (
    r"(?:(?!<).?<?[^<>\s]{1,256}>|</?[^<>\s]{1,256}&(?:gt|#62);|</?\w[^<>\s]{0,256}[<\"]|</[^<>]{0,64}[A-Z])"
)
"""The rest of a tag after its token: with a wrong bracket, an escaped one or none, or the name in capitals."""
_ARGUMENT_TAGS = ("input", "arguments", "parameters", "args", "params", "tool_input", "kwargs")
_WRAPPERS = (("```", "```"), ("<![CDATA[", "]]>"), *((f"<{tag}>", f"</{tag}>") for tag in _ARGUMENT_TAGS))
"""What may stand around a whole text without being a part of it."""


def holds_damaged(text: str, tag: str) -> bool:
    """Return whether a half of a tag, or all of it but its brackets, is in a text that holds no whole one."""
    text, tag, half = text.lower(), tag.lower(), len(tag) // 2
    return len(tag) >= _SHORTEST_TAG and any(part in text for part in (tag[:half], tag[half:], tag[1:-1]))


def has_damaged_close(value: str, compiled: CompiledTags, *, unclosed: bool) -> bool:
    """Return whether a value holds its closing tag damaged or, if it is `unclosed`, ends like a tag or like JSON."""
    tags, close = compiled.tags, compiled.tags.parameter_close
    if len(close) < _SHORTEST_TAG:
        return False
    bare = value.rstrip(_AROUND)
    if holds_damaged(_whole_tags(compiled).sub("", value), close):
        return True
    if not unclosed:
        return bare.endswith(tags.call_close)
    is_part = any(bare.endswith(close[:size]) for size in range(1, len(close)))
    # A quote or bracket that nothing in the value opened is rather the end of JSON.
    last, opening = bare[-1:], _JSON_PAIRS.get(bare[-1:])
    ends_string = last == '"' and bare.count(last) % 2 == 1
    ends_container = opening is not None and bare.count(last) > bare.count(opening)
    return bare.endswith(close[-1]) or is_part or ends_string or ends_container


def has_damaged_open(value: str, opening: str) -> bool:
    """Return whether a value begins like its opening tag, or contains it."""
    start = html.unescape(value[: len(opening) + _LONGEST_ENTITY])
    begins_like = start.startswith(opening[:1]) or opening[-1:] in start or holds_damaged(start, opening)
    return bool(opening) and (opening in value or begins_like)


def begins_like_opening(text: str, pos: int, opening: str) -> bool:
    """Return whether an opening tag, whole or damaged, is at `pos`."""
    found = text[pos : pos + len(opening) + 1]
    if found.startswith((opening[0] + "_", "</")):
        return False
    if len(found) <= len(opening):
        raise MoreNeeded
    first = found[:2] + found[2:].partition(opening[0])[0]  # without another tag behind a short text
    return holds_damaged(first, opening)


def holds_damaged_tag(text: str, head: str) -> bool:
    """Return whether a tag whose head begins with a reserved token is damaged in it, or lacks its bracket."""
    token = head[:-1]
    others = re.sub(_pattern_of(token), "\0", text)
    lacks_token = len(token) >= _SHORTEST_TAG and f"{token[-1]}</" in others
    return (
        lacks_token
        or holds_damaged(others, token)
        or re.search(re.escape(token) + _DAMAGED_REST_OF_TAG, text) is not None
    )


@functools.lru_cache(maxsize=256)
def _whole_tags(compiled: CompiledTags) -> re.Pattern[str]:
    """Return a pattern for the whole tags of a dialect, also as prompts escape them (`prompt/escape.py`)."""
    tags = {*compiled.tags.markers(), *(marker.strip() for marker in compiled.value_marker_kinds)}
    return re.compile("|".join(map(_pattern_of, sorted(tags, key=len, reverse=True))))


def _pattern_of(tag: str) -> str:
    return f"{re.escape(tag[0])}_*{re.escape(tag[1:])}"


def is_wrapped(text: str) -> bool:
    """Return whether a fence, CDATA or a tag for arguments stands around a whole text, of which it may be a part."""
    return any(text.startswith(start) and text.endswith(end) and text.count(end) < 3 for start, end in _WRAPPERS)
