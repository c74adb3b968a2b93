"""The tags of a body with one tag per parameter, as data, and how a tag is found and read.

Rule: only a complete tag counts; the length of a tag is bounded; nothing here keeps state of a body.
"""

import functools
import re
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.parse.markers import MarkerSet

MAX_NAME_LENGTH = 256
_MAX_TAG_LENGTH = 600
"""Characters of one opening tag: a name and a few attributes."""
_MAX_HEADER_LENGTH = 320
WRAPPERS = ("parameters", "params", "arguments", "args", "input")
"""Elements around all parameters of a call that add nothing."""
_WRAPPER_TAG = re.compile(rf"<({'|'.join(WRAPPERS)})>[ \t\r\n]{{0,64}}(</\1>)?")
_PARTIAL_WRAPPER_TAG = re.compile(r"<[a-z]{0,10}(?:>[ \t\r\n]{0,64}(?:</?[a-z]{0,10})?)?\Z")
_ASSIGNMENT = re.compile(
    r"(?:[ \t]{1,8}|(?<=[\"']),[ \t]{0,8})([^\W\d][\w.-]{0,127})="
    r"(?:\"([^\"\\<>]*)\"|'([^'\\<>]*)'|([^\s\"'\\=,;(){}\[\]]+))"
)
_MAX_ATTRIBUTES = 8
_MAX_SPACE = 256
"""White space between two tags that one match skips."""
_SPACE = re.compile(rf"[ \t\r\n]{{0,{_MAX_SPACE}}}")
_ATTRIBUTE = re.compile(r"[ \tĠ]{1,16}([\w.:-]{1,64})[ \t]{0,4}=[ \t]{0,4}(?:\"|'|(?=[^\s\"'<>]))")
"""MiniCPM leaks `Ġ`, the blank of byte-level tokenizers."""
_PARTIAL_ATTRIBUTE = re.compile(r"[ \tĠ]{0,16}[\w.:-]{0,64}[ \t]{0,4}(?:=[ \t]{0,4})?\Z")
_EMPTY_TAG_ATTRIBUTES = ("type", "string", "id", "index")
"""Attributes that may stand beside the name in a tag without content, and say nothing about a value."""
_MAX_ELEMENT_END = 6
_ELEMENT_END = re.compile(r"[ \t]{0,4}(/?)>")
_EQUALS = re.compile(r"[ \tĠ]{0,4}=[ \t]{0,4}")
_WORD = re.compile(r"[^\s<]*+")
_TYPE = re.compile(r"[\w.|?\[\] -]{0,64}")
_UNQUOTED_VALUE = re.compile(r"[^\s\"'<>]{1,256}")

_TYPE_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}

_JSON_TYPES = frozenset(_TYPE_NAMES.values()) | {"integer"}

MarkerKind = Literal["parameter", "call", "call_close", "close", "open", "value_close"]
"""The kind of a marker inside a body; `open` and `close` enclose the body itself."""


def _add_suffix(tag: str, suffix: str) -> str:
    return f"{tag[:-1]}{suffix}>" if tag.endswith(">") else tag


@dataclass(frozen=True, slots=True)
class Tag:
    """An opening tag with a name: `head`, the name (everything between, or one attribute), `end`."""

    head: str
    end: str = ">"
    attribute: str = ""
    type_attribute: str = ""
    """The attribute for a value's type, where the format has one."""
    name: str = ""
    """The name, where it is part of `head`."""

    @property
    def prefix(self) -> str:
        """What stands before the name."""
        return f'{self.head} {self.attribute}="' if self.attribute else self.head


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags around calls, parameters and values.

    Where a call has no tag of its own (`call.head` is empty), the body starts with the name, up to `call.end` or the
    first parameter, and the call ends with the body: `call_close` is then the body's end marker.
    """

    call: Tag
    call_close: str
    parameter: Tag
    parameter_close: str
    separator: str = ""
    """A tag that may follow a call's name. Read, but never written."""
    type_open: str = ""
    """The opening tag of a value's type, where the type may have its own tag after the key. Read, but never written."""
    type_close: str = ""
    value_open: str = ""
    """The opening tag of the value, where it is not the parameter's own tag."""
    quote_open: str = ""
    """The start of quotes around a value that contains markers: inside them only `quote_close` counts."""
    quote_close: str = ""
    object_open: str = ""
    """The start of an element that may hold all arguments as one JSON object, up to `parameter.end`. Never written."""
    object_close: str = ""
    nested: bool = False
    """True where the parameter's tag is its key, and values are nested elements."""
    lines: bool = False
    """True where one line break after a value's opening tag, and one before its closing tag, are not content."""
    may_have_lines: bool = False
    """True where these line breaks may be content or not: another dialect has the same tags, with `lines`."""
    text_types: tuple[str, ...] = ("string",)
    """The type names of a value that is text; the first one is written."""
    other_type: str = ""
    """The type name of any other value; by default the JSON type's name."""
    entities: bool = False
    """True where attributes are escaped with `&quot;` and `&amp;`."""
    twice: bool = False
    """True where a call's name may be doubled (`f.f`)."""
    counter: str = ""
    """The attribute that numbers the calls, where the format has one."""
    gap: str = "\n"
    """The text written between tags."""
    several: bool = False
    """True where one body holds all calls of a turn."""

    def __post_init__(self) -> None:
        """Raise `ConfigError` where a tag that the search needs is empty."""
        needed = {
            "call_close": self.call_close,
            "parameter": self.parameter.head,
            "parameter_close": self.parameter_close,
        }
        for name, marker in (*needed.items(), ("parameter's end", self.parameter.end)):
            if not marker:
                raise ConfigError(f"parameter tags: {name} must not be empty")

    def markers(self) -> tuple[str, ...]:
        """Return every fixed part of a tag."""
        ends = (self.call.end, self.parameter.end, self.call_close, self.parameter_close)
        values = (self.type_open, self.type_close, self.value_open, self.quote_open, self.quote_close)
        return tuple(filter(None, (self.call.head, self.parameter.head, *ends, *values)))

    def json_types(self) -> frozenset[str]:
        """Return the type names of values that are JSON, and no text."""
        return frozenset([self.other_type]) if self.other_type else _JSON_TYPES

    def with_suffix(self, suffix: str) -> "Tags":
        """Return the tags with a suffix in each: `<tool_call:suffix>`."""
        call = replace(self.call, head=_add_suffix(self.call.head, suffix))
        parameter = replace(
            self.parameter,
            head=_add_suffix(self.parameter.head, suffix),
            end=_add_suffix(self.parameter.end, suffix),
        )
        return replace(
            self,
            call=call,
            call_close=_add_suffix(self.call_close, suffix),
            parameter=parameter,
            separator=_add_suffix(self.separator, suffix),
            value_open=_add_suffix(self.value_open, suffix),
            parameter_close=_add_suffix(self.parameter_close, suffix),
        )

    def call_opening(self, name: str, number: int) -> str:
        """Write the opening tag of the `number`th call of a turn."""
        counter = f' {self.counter}="{number}"' if self.counter else ""
        return self._format_tag(self.call, name, counter)

    def parameter_opening(self, key: str, value: JSON) -> str:
        """Write the opening of a parameter, up to its value."""
        type_name = self._type_of(value)
        typed = f' {self.parameter.type_attribute}="{type_name}"' if self.parameter.type_attribute else ""
        value_tag = f"{self.gap}{self.value_open}" if self.value_open else ""
        return self._format_tag(self.parameter, key, typed) + value_tag

    def _format_tag(self, tag: Tag, name: str, attributes: str) -> str:
        if not tag.attribute:
            return f"{tag.head}{name}{attributes}{tag.end}"
        escaped = name.replace("&", "&amp;").replace('"', "&quot;") if self.entities else name
        return f'{tag.head} {tag.attribute}="{escaped}"{attributes}{tag.end}'

    def _type_of(self, value: JSON) -> str:
        if isinstance(value, str):
            return self.text_types[0]
        return self.other_type or _TYPE_NAMES[type(value)]


@dataclass(frozen=True, slots=True)
class BodyHeader:
    """The text between a start marker that ends with `marker_end` and the body: a word and further markers."""

    marker_end: str
    pattern: str
    """A regular expression without unbounded repetition, over at most two line ends."""

    def find_end(self, text: str, pos: int) -> int | None:
        """Return the end of the header at `pos`: -1 where there is none, None where more text is needed."""
        found = re.compile(self.pattern).match(text, pos)
        if found is not None:
            return found.end()
        word = _WORD.match(text, pos)
        assert word is not None
        over = text.count("\n", pos) > 1 or text[word.end() : word.end() + 1] not in {"", "<"}
        return -1 if over or len(text) - pos >= _MAX_HEADER_LENGTH else None


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


TagMatch = NamedTag | Literal[False] | None
"""A tag, False where there is none, None where more text is needed."""


class CompiledTags:
    """The tags and markers of one dialect's bodies, compiled for searching."""

    def __init__(
        self,
        tags: Tags,
        start_markers: tuple[str, ...],
        end_markers: tuple[str, ...],
        openings: tuple[str, ...] = (),
    ) -> None:
        """Compile the tags; `openings` are further tags that open a parameter."""
        self.tags = tags
        self.start_markers, self.end_markers = start_markers, end_markers
        call_head = tags.call.head
        kinds: dict[str, MarkerKind] = {
            marker: "call" if call_head and marker.startswith(call_head) else "open" for marker in start_markers
        }
        kinds |= dict.fromkeys(end_markers, "close")
        kinds.setdefault(tags.call_close, "call_close")
        if call_head:
            kinds |= dict.fromkeys(_spellings_of_head(call_head), "call")
        kinds |= dict.fromkeys((tags.parameter.head, *openings), "parameter")
        self.marker_kinds = kinds
        self.markers = MarkerSet(kinds)
        """The markers that may stand between parameters or after the last one."""
        value = {marker: kind for marker, kind in kinds.items() if kind != "open" or not call_head}
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
        """Return the end of the white space at `pos`."""
        found = _SPACE.match(text, pos)
        assert found is not None
        return found.end()

    def kind_at(self, text: str, pos: int) -> MarkerKind | Literal[False] | None:
        """Return the kind of the marker at `pos`: False for none, None where more text is needed."""
        found = self.markers.match(text, pos)
        if found is not None and not self.markers.is_partial(text, pos):
            return self.marker_kinds[found[0]]
        return None if pos == len(text) or self.markers.is_partial(text, pos) else False

    def end_of_marker(self, text: str, pos: int) -> int:
        """Return the end of the marker at `pos`."""
        found = self.markers.match(text, pos)
        assert found is not None
        return found.end()

    def kind_after_space(self, text: str, pos: int) -> MarkerKind | Literal[False] | None:
        """Return the same for the text after the white space at `pos`."""
        return self.kind_at(text, self.skip_space(text, pos))

    def read_call(self, text: str, pos: int) -> TagMatch:
        """Read a call's opening at `pos` or after white space."""
        pos, head = self.skip_space(text, pos), self.tags.call.head
        if not head:
            found = self._read_untagged_name(text, pos)
        elif not text.startswith(_spellings_of_head(head), pos):
            return None if any(each.startswith(text[pos:]) for each in _spellings_of_head(head)) else False
        elif not self.tags.call.end:
            found = self._read_untagged_name(text, pos + len(head))
        else:
            found = _read_tag(self.tags.call, text, pos)
        return found and found._replace(name=self._decode(found.name))

    def read_confirmed_call(self, text: str, pos: int) -> TagMatch:
        """Read a call's opening in ambiguous text: only one that a parameter or the call's end follows counts."""
        found = self.read_call(text, pos)
        if not found or found.is_empty:
            return found
        at = self.skip_space(text, found.end)
        wrapper, kind = _WRAPPER_TAG.match(text, at), self.kind_at(text, at)
        if kind is False and wrapper is not None:
            kind = "parameter" if wrapper[2] else self.kind_at(text, wrapper.end())
        if kind is None or (kind is False and _PARTIAL_WRAPPER_TAG.match(text, at)):
            return None
        return found if kind in {"parameter", "call_close", "close"} else False

    def _read_untagged_name(self, text: str, start: int) -> TagMatch:
        marks = ("\n", self.tags.parameter.head[0])
        ends = [at for at in (text.find(mark, start, start + MAX_NAME_LENGTH) for mark in marks) if at >= 0]
        if not ends:
            return None if len(text) - start < MAX_NAME_LENGTH else False
        end = min(ends)
        name = text[start:end].strip().removesuffix("\\n")  # Ling 3 may write `\n` for the line break
        separator = self.tags.call.end or self.tags.separator
        after = self.skip_space(text, end)
        if separator and text.startswith(separator, after):
            after += len(separator)
        elif separator and separator.startswith(text[after:]):
            return None
        return NamedTag(name, "", after) if name and name[0] not in "[\"'`" and "{" not in name else False

    def read_parameter(self, text: str, pos: int) -> TagMatch:
        """Read a parameter's opening, up to its value."""
        tags = self.tags
        head = tags.parameter.head
        if not text.startswith(head, pos):
            return None if head.startswith(text[pos:]) else False
        found = _read_tag(tags.parameter, text, pos)
        if not found or not tags.value_open:
            return found and found._replace(name=self._decode(found.name))
        at = self.skip_space(text, found.end)
        kind = found.type
        if tags.type_open and text.startswith(tags.type_open, at):
            typed = _read_tag(Tag(tags.type_open, tags.type_close), text, at)
            if not typed:
                return typed
            kind, at = typed.name, self.skip_space(text, typed.end)
        if text.startswith(tags.value_open, at):
            return NamedTag(found.name, kind, at + len(tags.value_open))
        if any(opening.startswith(text[at:]) for opening in (tags.value_open, tags.type_open)):
            return None
        is_damaged = text[at] == tags.value_open[0]
        return False if is_damaged else NamedTag(found.name, kind, at, lacks_value_open=True)

    def _decode(self, name: str) -> str:
        return name.replace("&quot;", '"').replace("&amp;", "&") if self.tags.entities else name


@functools.lru_cache(maxsize=256)
def compile_tags(tags: Tags, start_markers: tuple[str, ...], end_markers: tuple[str, ...]) -> CompiledTags:
    """Return the compiled tags (cached)."""
    return CompiledTags(tags, start_markers, end_markers)


def _spellings_of_head(head: str) -> tuple[str, ...]:
    """Return the head with the spellings that models confuse it with: `<function=` and `<function name=`."""
    return (head, f"{head[:-1]} ") if head.endswith("=") else (head,)


def _read_tag(tag: Tag, text: str, pos: int) -> TagMatch:
    """Read a tag whose head is there; its name may be an attribute where it should follow `=`, and conversely."""
    if tag.name:
        return _read_element(tag, text, pos + len(tag.head))
    if not tag.attribute and text.startswith(tag.head, pos):
        return _read_name(tag, text, pos + len(tag.head))
    return read_spelled_tag(tag if tag.attribute else _with_attribute(tag), text, pos)


@functools.lru_cache(maxsize=64)
def _with_attribute(tag: Tag) -> Tag:
    """Return a tag whose name follows `=` as one whose name is an attribute."""
    return replace(tag, head=tag.head.removesuffix("="), attribute="name")


def _read_element(tag: Tag, text: str, start: int) -> TagMatch:
    """Read the rest of a tag without attributes, whose head is its name."""
    found = _ELEMENT_END.match(text, start)
    if found is None:
        return None if len(text) - start < _MAX_ELEMENT_END and not text[start:].strip(" \t/") else False
    return NamedTag(tag.name, "", found.end(), is_empty=bool(found[1]))


class Assignment(NamedTuple):
    """An argument in the line of the tool's name: `days=3`, `city="San Jose"`."""

    key: str
    text: str
    is_quoted: bool


def read_assignments(line: str) -> tuple[str, list[Assignment]]:
    """Return the name and the arguments in a line such as `get_weather city="San Jose" days=3`.

    There are none unless the whole line is that: quotes around all of a value or none in it, and no other separator.
    """
    name, blank, _ = line.partition(" ")
    pos, found = len(name), []
    while (match := _ASSIGNMENT.match(line, pos)) is not None:
        is_quoted = match[4] is None
        found.append(Assignment(match[1], match[4] or match[2] or match[3] or "", is_quoted))
        pos = match.end()
    return (name, found) if blank and pos == len(line) else (line, [])


def read_spelled_tag(tag: Tag, text: str, pos: int) -> TagMatch:
    """Read a tag with its name after `=` or in the tag's attribute."""
    start = pos + len(tag.head)
    equals = _EQUALS.match(text, start)
    if equals is not None:
        return _read_name(tag, text, equals.end())
    return None if start == len(text) else _read_attributes(tag, text, start)


def _read_name(tag: Tag, text: str, start: int) -> TagMatch:
    at = text.find(tag.end, start, start + MAX_NAME_LENGTH + len(tag.end))
    broken = text.find("\n", start, at if at >= 0 else start + MAX_NAME_LENGTH) >= 0
    if at < 0:
        return False if broken or len(text) - start >= MAX_NAME_LENGTH + len(tag.end) else None
    name, is_empty = text[start:at].strip(), tag.head == "["
    if tag.end == ">" and name.endswith("/"):
        name, is_empty = name[:-1].rstrip(), True
    if len(name) > 2 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1]
    closing = tag.head[-1] == "<" and name[:1] == "/"
    is_cut = "<" in name and (tag.end == ">" or tag.head in name)  # another tag begins before this one ends
    return (
        NamedTag(name, "", at + len(tag.end), is_empty=is_empty)
        if name and not (broken or closing or is_cut)
        else False
    )


def _read_attributes(tag: Tag, text: str, start: int) -> TagMatch:
    """Read a tag's attributes, which must be on one line."""
    line, newline, _ = text[start : start + _MAX_TAG_LENGTH].partition("\n")
    found: dict[str, str] = {}
    pos = 0
    for _ in range(_MAX_ATTRIBUTES + 1):
        end = _tag_end(tag, line, pos)
        if end >= 0:
            name = found.get(tag.attribute)
            is_empty = line[end - len(tag.end) - 1 : end] == "/>"
            known = {tag.attribute, tag.type_attribute, *_EMPTY_TAG_ATTRIBUTES}
            others = tuple(key for key in found if key not in known)
            if "value" in others or (is_empty and others):
                return False  # the tag itself holds a value
            value_type = found.get(tag.type_attribute, "")
            return NamedTag(name, value_type, start + end, is_empty=is_empty, attributes=others) if name else False
        attribute = _ATTRIBUTE.match(line, pos)
        value = _read_attribute_value(tag, line, attribute) if attribute else None
        if attribute is None or value is None:
            may_follow = attribute is not None or _may_continue_tag(tag, line, pos)
            return None if may_follow and not newline and len(line) < _MAX_TAG_LENGTH else False
        found[attribute[1]], pos = value
        if tag.head in value[0] or (attribute[1] == tag.type_attribute and not _TYPE.fullmatch(value[0])):
            return False  # its closing quotation mark is missing
    return False


def _may_continue_tag(tag: Tag, line: str, pos: int) -> bool:
    """Return whether the rest of the text may be the beginning of another attribute, or of the tag's end."""
    rest = line[pos:].lstrip(" \t")
    return rest == "/" or tag.end.startswith(rest) or _PARTIAL_ATTRIBUTE.match(line, pos) is not None


def _tag_end(tag: Tag, line: str, pos: int) -> int:
    while pos < len(line) and line[pos] in " \t":
        pos += 1
    if tag.end == ">" and line.startswith("/>", pos):
        pos += 1
    return pos + len(tag.end) if line.startswith(tag.end, pos) else -1


def _read_attribute_value(tag: Tag, line: str, attribute: re.Match[str]) -> tuple[str, int] | None:
    """Return a value and its end."""
    quote, start = attribute[0][-1], attribute.end()
    if quote not in "\"'":
        bare = _UNQUOTED_VALUE.match(line, start)
        end = line.find(tag.end, start, bare.end()) if bare else -1
        at = bare.end() if bare and end < 0 else end
        at -= bare is not None and tag.end == ">" and line.startswith("/>", at - 1)
        return (line[start:at], at) if 0 <= at < len(line) else None
    at = line.find(quote, start)
    return (line[start:at], at + 1) if at >= 0 else None
