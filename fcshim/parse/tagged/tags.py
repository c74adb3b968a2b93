"""The tags of a body with one tag per parameter, as data."""

import re
from dataclasses import dataclass, replace

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.parse.scanner import MoreNeeded

_MAX_HEADER_LENGTH = 320
_WORD = re.compile(r"[^\s<]*+")

_TYPE_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}

_JSON_TYPES = frozenset(_TYPE_NAMES.values()) | {"integer"}


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
    twice: bool = False
    """True where the name may be doubled (`f.f`)."""

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
    value_open: str = ""
    """The opening tag of the value, where it is not the parameter's own tag."""
    quote_open: str = ""
    """The start of quotes around a value that contains markers: inside them only `quote_close` counts."""
    quote_close: str = ""
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

    @property
    def nested(self) -> bool:
        """True where the key ends the parameter's tags, `<key>` and `</key>`, and values are nested elements."""
        return self.parameter_close == f"{self.parameter.head}/"

    def markers(self) -> tuple[str, ...]:
        """Return every fixed part of a tag."""
        ends = (self.call.end, self.parameter.end, self.call_close, self.parameter_close)
        values = (self.value_open, self.quote_open, self.quote_close)
        return tuple(filter(None, (self.call.head, self.parameter.head, *ends, *values)))

    def json_types(self) -> frozenset[str]:
        """Return the type names of values that are JSON, and no text."""
        return frozenset([self.other_type]) if self.other_type else _JSON_TYPES

    def with_suffix(self, suffix: str) -> "Tags":
        """Return the tags with a suffix in each: `<tool_call:suffix>`."""
        call, parameter = (
            replace(tag, head=_add_suffix(tag.head, suffix), end=_add_suffix(tag.end, suffix))
            for tag in (self.call, self.parameter)
        )
        return replace(
            self,
            call=call,
            call_close=_add_suffix(self.call_close, suffix),
            parameter=parameter,
            parameter_close=_add_suffix(self.parameter_close, suffix),
            separator=_add_suffix(self.separator, suffix),
            value_open=_add_suffix(self.value_open, suffix),
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

    def find_end(self, text: str, pos: int) -> int:
        """Return the end of the header at `pos`, or -1 where there is none."""
        found = re.compile(self.pattern).match(text, pos)
        if found is not None:
            return found.end()
        word = _WORD.match(text, pos)
        assert word is not None
        over = text.count("\n", pos) > 1 or text[word.end() : word.end() + 1] not in {"", "<"}
        if over or len(text) - pos >= _MAX_HEADER_LENGTH:
            return -1
        raise MoreNeeded
