"""The `response_template` of a model's `tokenizer_config.json`: its JSON as Structs.

Rule: what transformers rejects when it loads a template is a `ConfigError` here, with the field's name.

Format: transformers 5.13 and later, `tokenizer.parse_response`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.parse.response_template.pattern import (
    PatternError,
    PatternNode,
    compile_pattern,
    group_names,
    parse_pattern,
)

ContentParser = Literal["text", "int", "float", "bool", "json", "xml-inline", "kv-lines"]
_MAX_TEXTS = 100
CONTENT = "content"
REASONING = ("thinking", "reasoning_content", "reasoning")
"""The fields that take the model's reasoning."""
_START_OR_TAG = re.compile(r"(?P<group>\(\?:)?\^\|(?P<tag>[^|()]+)(?(group)\))")
"""The start of the reply, or a tag: `(?:^|<think>)`."""
_PLACEHOLDER = re.compile(r"\{(\w+(?:\.\w+)*)\}")


class TemplateField(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One field of the message: where its text begins and ends, and how it is read."""

    open: str | list[str] | None = None
    open_pattern: str | None = None
    close: str | list[str] | None = None
    close_pattern: str | None = None
    content: ContentParser = "text"
    content_args: dict[str, JSON] = {}
    repeats: bool = False
    join: str | None = None
    optional: bool = True
    transform: JSON = None
    transform_each: bool = False

    @property
    def opens(self) -> list[str]:
        """The literal texts that open the field."""
        return [self.open] if isinstance(self.open, str) else self.open or []

    @property
    def closes(self) -> list[str]:
        """The literal texts that close the field."""
        return [self.close] if isinstance(self.close, str) else self.close or []

    @property
    def is_implicit(self) -> bool:
        """True for the field that takes the text outside all others."""
        return self.open is None and self.open_pattern is None


class ResponseTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The template. `start_anchor` finds the reply in the prompt's text, which is not needed here."""

    fields: dict[str, TemplateField]
    version: Literal[1] = 1
    defaults: dict[str, JSON] = {}
    start_anchor: str | list[str] | None = None
    start_anchor_pattern: str | None = None


def decode_template(raw: JSON) -> ResponseTemplate:
    """Decode and check a template. Raises `ConfigError`."""
    try:
        msgspec.json.encode(raw)
        template = msgspec.convert(raw, ResponseTemplate)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # half a surrogate pair is not text
        raise ConfigError(f"response_template: {error}") from error
    _check_literals("start_anchor", template.start_anchor, template.start_anchor_pattern)
    if template.start_anchor is None and template.start_anchor_pattern is None:
        raise ConfigError("response_template: expected start_anchor or start_anchor_pattern")
    if sum(field.is_implicit for field in template.fields.values()) > 1:
        raise ConfigError("response_template: expected at most one field without open and open_pattern")
    fields = dict(template.fields)
    for name, field in template.fields.items():
        # A field of reasoning begins with its tag: where it begins with the reply, the prompt shows it.
        found = _START_OR_TAG.fullmatch(field.open_pattern or "") if name in REASONING else None
        if found is not None:
            fields[name] = msgspec.structs.replace(field, open_pattern=found["tag"])
        _check_field(name, fields[name])
    return msgspec.structs.replace(template, fields=fields)


def _check_field(name: str, field: TemplateField) -> None:
    _check_literals(f"fields.{name}: open", field.open, field.open_pattern)
    _check_literals(f"fields.{name}: close", field.close, field.close_pattern)
    nodes = [read_pattern(name, text) for text in (field.open_pattern, field.close_pattern) if text is not None]
    faults = {
        "join needs repeats": field.join is not None and not field.repeats,
        "transform_each needs a transform": field.transform_each and field.transform is None,
        "named groups need a transform": field.transform is None and any(any(group_names(node)) for node in nodes),
        "a string of transform is either one {placeholder} or has none": any(
            _PLACEHOLDER.search(text) and placeholder(text) is None for text in strings(field.transform)
        ),
    }
    for message, holds in faults.items():
        if holds:
            raise ConfigError(f"response_template: fields.{name}: {message}")


def _check_literals(location: str, literal: str | list[str] | None, pattern: str | None) -> None:
    texts = [literal] if isinstance(literal, str) else literal
    if texts is not None and pattern is not None:
        raise ConfigError(f"response_template: {location}: expected a text or a pattern, not both")
    if len(texts or ()) > _MAX_TEXTS:
        raise ConfigError(f"response_template: {location}: expected at most {_MAX_TEXTS} texts")
    if texts is not None and not (texts and all(texts)):
        raise ConfigError(f"response_template: {location}: expected texts that are not empty")


def read_pattern(name: str, text: str) -> PatternNode:
    """Parse a field's regular expression. Raises `ConfigError`."""
    try:
        node = parse_pattern(text)
        compile_pattern(node)
    except PatternError as error:
        raise ConfigError(f"response_template: fields.{name}: the regular expression {text!r:.200}: {error}") from error
    return node


def placeholder(text: JSON) -> list[str] | None:
    """Return the path of a `{placeholder}`, None for any other value."""
    found = _PLACEHOLDER.fullmatch(text) if isinstance(text, str) else None
    return found[1].split(".") if found else None


def strings(value: JSON) -> Iterator[str]:
    """Yield the string values in a JSON tree."""
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(item)


Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallShape:
    """Where a call has the tool's name and the arguments; both are empty where the content itself is the call.

    Each is a path: the first part is `content`, an item's key, or a group of the opening pattern.
    """

    name: Path = ()
    arguments: Path = ()
    each: bool = False
    """True where the content is an array of calls."""

    @property
    def is_whole(self) -> bool:
        """True where the content itself is the call, or an array of calls."""
        return not self.arguments

    @property
    def in_content(self) -> bool:
        """True where both are in the content."""
        return bool(self.name) and (self.each or self.name[0] == self.arguments[0] == CONTENT)

    @property
    def name_group(self) -> str:
        """The group of the opening pattern that has the tool's name; empty for none."""
        return self.name[0] if self.name and not self.in_content else ""

    @property
    def keys(self) -> tuple[Path, Path]:
        """The paths of the name and of the arguments inside the content."""
        return (self.name, self.arguments) if self.each else (self.name[1:], self.arguments[1:])


def call_shape(name: str, field: TemplateField) -> CallShape:
    """Read the shape of calls from a field's transform. Raises `ConfigError`."""
    transform = field.transform
    call = transform.get("function", transform) if isinstance(transform, dict) else transform
    if call is None or placeholder(call) == [CONTENT]:  # the content is the call
        return CallShape(each=field.transform_each)
    call = call if isinstance(call, dict) else {}
    named, arguments = placeholder(call.get("name")), placeholder(call.get("arguments"))
    if named is None or arguments is None:
        raise ConfigError(
            f"response_template: fields.{name}: expected a transform with the placeholders of a call's name and "
            f"arguments, not {field.transform!r:.200}"
        )
    return CallShape(tuple(named), tuple(arguments), field.transform_each)
