"""Find the tags of a body with one tag per parameter, and read them.

Rule: only a complete tag counts; the length of a tag is bounded; nothing here keeps state of a body. What reads text
raises `MoreNeeded` if its answer may change with more text.
"""

import functools
import re
from dataclasses import replace
from typing import Literal, NamedTuple

from fcshim.parse.markers import MarkerSet
from fcshim.parse.scanner import MoreNeeded, Scanner
from fcshim.parse.tagged.tags import Tag, Tags

MAX_NAME_LENGTH = 256
_MAX_TAG_LENGTH = 600
"""Characters of one opening tag: a name and a few attributes."""
WRAPPERS = ("parameters", "params", "arguments", "args", "input")
"""Elements around all parameters of a call that add nothing."""
_MAX_ATTRIBUTES = 8
_MAX_SPACE = 256
"""White space between two tags that one match skips."""
SPACE = re.compile(rf"[ \t\r\n]{{0,{_MAX_SPACE}}}")
_BLANK = re.compile(r"[ \tĠ]{0,16}")
"""MiniCPM leaks `Ġ`, the blank of byte-level tokenizers."""
_ATTRIBUTE_NAME = re.compile(r"[\w.:-]{1,64}")
_SILENT_ATTRIBUTES = frozenset(("type", "string", "id", "index"))
"""Attributes that may stand beside the name, and say nothing about a value."""
_TYPE = re.compile(r"[\w.|?\[\] -]{0,64}")
_UNQUOTED_VALUE = re.compile(r"[^\s\"'<>\]]{1,256}")

MarkerKind = Literal["parameter", "call", "call_close", "close", "open", "value_close"]
"""The kind of a marker inside a body; `open` and `close` enclose the body itself."""


class NamedTag(NamedTuple):
    """An opening tag that was read; it ends at `end`."""

    name: str
    type: str
    end: int
    close: str = ""
    """The closing tag, where it is not the dialect's own."""
    is_empty: bool = False
    """True where the tag closes itself (`<function=now/>`)."""
    is_unclosed: bool = False
    """True where no closing tag belongs to it: the next parameter or the end of the call ends the value."""
    lacks_value_open: bool = False
    """True where the tag that opens the value is missing."""
    attributes: tuple[str, ...] = ()
    """The attributes beside the name that may be arguments of a call."""
    is_call: bool = False
    """True where it is the call's tag, and the value is the text of a custom tool."""


class CompiledTags:
    """The tags and markers of one dialect's bodies, compiled for searching."""

    def __init__(
        self, tags: Tags, start_markers: tuple[str, ...], end_markers: tuple[str, ...], openings: tuple[str, ...] = ()
    ) -> None:
        """Compile the tags; `openings` are further tags that open a parameter."""
        self.tags = tags
        self.start_markers, self.end_markers = start_markers, end_markers
        head = tags.call.head
        kinds: dict[str, MarkerKind] = {
            marker: "call" if head and marker.startswith(head) else "open" for marker in start_markers
        }
        kinds |= dict.fromkeys(end_markers, "close")
        kinds.setdefault(tags.call_close, "call_close")
        kinds |= dict.fromkeys(_spellings_of_head(head), "call")
        kinds |= dict.fromkeys((tags.parameter.head, *openings), "parameter")
        self.marker_kinds = kinds
        self.markers = MarkerSet(kinds)
        """The markers that may stand between parameters or after the last one."""
        value = {marker: kind for marker, kind in kinds.items() if kind != "open" or not head}
        value[tags.parameter_close] = "value_close"
        broken = {"\n" + marker: kind for marker, kind in value.items() if tags.lines or kind != "value_close"}
        self.value_marker_kinds = broken | value
        """The markers that may end a value, also with the line break before them."""
        self.value_markers = MarkerSet(self.value_marker_kinds)
        self.quote_markers = MarkerSet([tags.quote_close] if tags.quote_close else [])
        leads = re.escape("".join(sorted({"\n", *tags.quote_close[:1], *(marker[0] for marker in value)})))
        self.plain_text = re.compile(f"[^{leads}]*+")
        """Matches text of a value without any character that may start such a marker."""

    def skip_space(self, text: str, pos: int) -> int:
        """Return the end of the white space at `pos`, without asking for more text."""
        found = SPACE.match(text, pos)
        assert found is not None
        return found.end()

    def kind_at(self, text: str, pos: int) -> MarkerKind | None:
        """Return the kind of the marker at `pos`, None for none."""
        if pos == len(text) or self.markers.is_partial(text, pos):
            raise MoreNeeded
        found = self.markers.match(text, pos)
        return self.marker_kinds[found[0]] if found else None

    def end_of_marker(self, text: str, pos: int) -> int:
        """Return the end of the marker at `pos`."""
        found = self.markers.match(text, pos)
        assert found is not None
        return found.end()

    def kind_after_space(self, text: str, pos: int) -> MarkerKind | None:
        """Return the same for the text after the white space at `pos`."""
        return self.kind_at(text, self.skip_space(text, pos))

    def read_call(self, text: str, pos: int) -> NamedTag | None:
        """Read a call's opening at `pos` or after white space."""
        pos, call = self.skip_space(text, pos), self.tags.call
        scan = Scanner(text, pos)
        if call.head and not scan.skip(*_spellings_of_head(call.head)):
            return None
        if call.head and call.end:
            return self._decoded(_read_tag(call, text, pos))
        return self._decoded(self._read_untagged_name(text, scan.pos))

    def read_confirmed_call(self, text: str, pos: int) -> NamedTag | None:
        """Read a call's opening in ambiguous text: only one that a parameter or the call's end follows counts."""
        found = self.read_call(text, pos)
        if found is None or found.is_empty:
            return found
        scan = Scanner(text, self.skip_space(text, found.end))
        kind = self.kind_at(text, scan.pos)
        if kind is None and (wrapper := scan.skip(*(f"<{name}>" for name in WRAPPERS))):
            scan.take(SPACE)
            kind = "parameter" if scan.skip(f"</{wrapper[1:]}") else self.kind_at(text, scan.pos)
        return found if kind in {"parameter", "call_close", "close"} else None

    def _read_untagged_name(self, text: str, start: int) -> NamedTag | None:
        marks = ("\n", self.tags.parameter.head[0])
        ends = [at for at in (text.find(mark, start, start + MAX_NAME_LENGTH) for mark in marks) if at >= 0]
        if not ends and len(text) - start < MAX_NAME_LENGTH:
            raise MoreNeeded
        end = min(ends, default=start)
        name = text[start:end].strip().removesuffix("\\n")  # Ling 3 may write `\n` for the line break
        separator = self.tags.call.end or self.tags.separator
        scan = Scanner(text, self.skip_space(text, end) if separator else end)
        scan.skip(separator)
        return NamedTag(name, "", scan.pos) if name and name[0] not in "[\"'`" and "{" not in name else None

    def read_parameter(self, text: str, pos: int) -> NamedTag | None:
        """Read a parameter's opening, up to its value."""
        tags, scan = self.tags, Scanner(text, pos)
        found = _read_tag(tags.parameter, text, pos) if scan.skip(tags.parameter.head) else None
        if found is None or not tags.value_open:
            return self._decoded(found)
        scan.pos = self.skip_space(text, found.end)
        opening = scan.skip(tags.value_open)
        if not opening and scan.peek() == tags.value_open[0]:
            return None  # a damaged tag
        return NamedTag(found.name, found.type, scan.pos, lacks_value_open=not opening)

    def _decoded(self, tag: NamedTag | None) -> NamedTag | None:
        if tag is None or not self.tags.entities:
            return tag
        return tag._replace(name=tag.name.replace("&quot;", '"').replace("&amp;", "&"))


@functools.lru_cache(maxsize=256)
def compile_tags(tags: Tags, start_markers: tuple[str, ...], end_markers: tuple[str, ...]) -> CompiledTags:
    """Return the compiled tags (cached)."""
    return CompiledTags(tags, start_markers, end_markers)


def _spellings_of_head(head: str) -> tuple[str, ...]:
    """Return the head with the spellings that models confuse it with: `<function=` and `<function name=`."""
    return (head, f"{head[:-1]} ") if head.endswith("=") else (head,) if head else ()


def _read_tag(tag: Tag, text: str, pos: int) -> NamedTag | None:
    """Read a tag whose head is there; its name may be an attribute where it should follow `=`, and conversely."""
    start = pos + len(tag.head)
    if tag.name:
        scan = Scanner(text, start)
        scan.take(_BLANK)
        end = scan.skip("/>", ">")
        return NamedTag(tag.name, "", scan.pos, is_empty=end == "/>") if end else None
    if not tag.attribute and text.startswith(tag.head, pos):
        return _read_name(tag, text, start)
    return read_spelled_tag(tag if tag.attribute else _with_attribute(tag), text, pos)


@functools.lru_cache(maxsize=64)
def _with_attribute(tag: Tag) -> Tag:
    """Return a tag whose name follows `=` as one whose name is an attribute."""
    return replace(tag, head=tag.head.removesuffix("="), attribute="name")


def read_spelled_tag(tag: Tag, text: str, pos: int) -> NamedTag | None:
    """Read a tag with its name after `=` or in the tag's attribute."""
    start = pos + len(tag.head)
    scan = Scanner(text, start)
    scan.take(_BLANK)
    if scan.skip("="):
        scan.take(_BLANK)
        return _read_name(tag, text, scan.pos)
    line, newline, _ = text[start : start + _MAX_TAG_LENGTH].partition("\n")
    try:
        found = _read_attributes(tag, Scanner(line, 0))
    except MoreNeeded:
        if newline or len(line) == _MAX_TAG_LENGTH:
            return None
        raise
    return found and found._replace(end=start + found.end)


def _read_name(tag: Tag, text: str, start: int) -> NamedTag | None:
    limit = start + MAX_NAME_LENGTH + len(tag.end)
    name, end, _ = text[start:limit].partition(tag.end)
    if not end and len(text) < limit and "\n" not in name:
        raise MoreNeeded
    size, is_empty = len(name), tag.head == "["
    if not end or "\n" in name:
        return None
    name = name.strip()
    if tag.end == ">" and name.endswith("/"):
        name, is_empty = name[:-1].rstrip(), True
    if len(name) > 2 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1]
    closing = tag.head[-1] == "<" and name[:1] == "/"
    is_cut = "<" in name and (tag.end == ">" or tag.head in name)  # another tag begins before this one ends
    return NamedTag(name, "", start + size + len(end), is_empty=is_empty) if name and not (closing or is_cut) else None


def _read_attributes(tag: Tag, scan: Scanner) -> NamedTag | None:
    """Read a tag's attributes, which must be on one line."""
    found: dict[str, str] = {}
    while len(found) <= _MAX_ATTRIBUTES:
        blank = scan.take(_BLANK)
        end = scan.skip(f"/{tag.end}", tag.end)
        if end:
            name, value_type = found.pop(tag.attribute, ""), found.pop(tag.type_attribute, "")
            others = tuple(found.keys() - _SILENT_ATTRIBUTES)
            is_empty = end[0] == "/"
            if not name or "value" in others or (is_empty and others):
                return None  # the tag itself holds a value
            return NamedTag(name, value_type, scan.pos, is_empty=is_empty, attributes=others)
        key = scan.take(_ATTRIBUTE_NAME) if blank else ""
        value = _read_attribute_value(scan) if key else None
        if value is None or tag.head in value or (key == tag.type_attribute and not _TYPE.fullmatch(value)):
            return None  # no attribute, or its closing quotation mark is missing
        found[key] = value
    return None


def _read_attribute_value(scan: Scanner) -> str | None:
    """Read the equals sign and the value, None where there is none."""
    scan.take(_BLANK)
    if not scan.skip("="):
        return None
    scan.take(_BLANK)
    quote = scan.skip('"', "'")
    if not quote:
        return scan.take(_UNQUOTED_VALUE) or None
    value, closed, _ = scan.text[scan.pos :].partition(quote)
    if not closed:
        raise MoreNeeded
    scan.pos += len(value) + 1
    return value
