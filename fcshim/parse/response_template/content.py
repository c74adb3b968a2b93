"""The content of a tool-call field of a `response_template`, read when it is complete.

Rule: every part of the content is used: text that no parameter takes makes the call unreadable, and so does a key that
comes twice.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from fcshim.events import JSON
from fcshim.parse.response_template.call_shape import CONTENT, CallShape, value_at
from fcshim.parse.response_template.pattern import (
    PatternError,
    PatternNode,
    compile_pattern,
    parse_pattern,
    widen_group,
)
from fcshim.parse.response_template.template import TemplateField

_BARE_KEY = re.compile(r"([{,]\s{0,64})([A-Za-z_]\w{0,127}):")


class ContentError(Exception):
    """The content is not what the template says; the message says what was expected."""


class RawText(NamedTuple):
    """A value without a type: the schema gives it one."""

    text: str


class ReadCall(NamedTuple):
    """A call: members of the arguments are JSON values, or raw text where the format has no types."""

    name: str
    arguments: dict[str, JSON]


def read_calls(field: TemplateField, shape: CallShape, text: str, groups: dict[str, str]) -> list[ReadCall]:
    """Read the calls of a complete field. Raises `ContentError`."""
    try:
        value = _parse(field.content, text, field.content_args)
    except (ValueError, RecursionError) as error:
        raise ContentError(f"not {field.content}: {error}"[:200]) from error
    items = value if shape.each or (shape.is_whole and isinstance(value, list)) else [value]
    if not isinstance(items, list):
        raise ContentError("expected an array of calls")
    return [_call(shape, item, groups) for item in items]


def tag_pattern(args: dict[str, JSON]) -> PatternNode:
    """Return the pattern of a parameter of `xml-inline`. Raises `PatternError`."""
    pattern = args.get("tag_pattern")
    if not isinstance(pattern, str):
        raise PatternError("expected content_args.tag_pattern")
    return parse_pattern(widen_group(pattern, "key"))


def _call(shape: CallShape, item: JSON, groups: dict[str, str]) -> ReadCall:
    if shape.is_whole:
        inner = item.get("function", item) if isinstance(item, dict) else item
        name, arguments = value_at(inner, ("name",)), value_at(inner, ("arguments",))
        arguments = {} if arguments is None else arguments
    else:
        scope = {**groups, **(item if shape.each and isinstance(item, dict) else {CONTENT: item})}
        name, arguments = shape.constant or value_at(scope, shape.name), value_at(scope, shape.arguments)
    if not isinstance(name, str):
        raise ContentError("expected a call with a name")
    return ReadCall(name, _object(arguments))


def _object(arguments: JSON) -> dict[str, JSON]:
    if isinstance(arguments, str):
        try:
            arguments = _load(arguments)
        except (ValueError, RecursionError) as error:
            raise ContentError("the arguments are not an object") from error
    if not isinstance(arguments, dict):
        raise ContentError("the arguments are not an object")
    return arguments


def _parse(parser: str, text: str, args: dict[str, JSON]) -> JSON:
    """Parse a content; text for any other parser than those that are known."""
    match parser:
        case "json":
            return _parse_json(text, args)
        case "xml-inline":
            return _members(_tags(text, args), merge=bool(args.get("merge_duplicates")))
        case "kv-lines":
            return _members(_lines(text, args), merge=False)
        case "int" | "float":
            return int(text) if parser == "int" else float(text)
        case "bool":
            return text.strip().lower() in {"true", "1"}
    return text.strip() if args.get("strip", True) else text


def _load(text: str) -> JSON:
    return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)


def _no_constant(name: str) -> JSON:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def _parse_json(text: str, args: dict[str, JSON]) -> JSON:
    """Parse JSON, whose keys may have no quotes, and whose strings may stand between other delimiters."""
    parts = [(text, False)]
    for opening, closing in args.get("string_delims", ()):
        parts = [piece for part, is_string in parts for piece in _split(part, opening, closing, is_string)]
    bare_keys = bool(args.get("unquoted_keys"))
    return _load("".join(_strict(part, is_string=is_string, bare_keys=bare_keys) for part, is_string in parts))


def _split(text: str, opening: str, closing: str, is_string: bool) -> Iterator[tuple[str, bool]]:  # noqa: FBT001 # a part
    """Split the strings between two delimiters off; a part that is a string already is kept."""
    pos = 0
    while not is_string and (start := text.find(opening, pos)) >= 0:
        end = text.find(closing, start + len(opening))
        if end < 0:
            break
        yield text[pos:start], False
        yield text[start + len(opening) : end], True
        pos = end + len(closing)
    yield text[pos:], is_string


def _strict(part: str, *, is_string: bool, bare_keys: bool) -> str:
    if is_string:
        return json.dumps(part)
    return _BARE_KEY.sub(r'\1"\2":', part) if bare_keys else part


def _tags(text: str, args: dict[str, JSON]) -> Iterator[tuple[str, JSON]]:
    """Yield the parameters of `xml-inline`; only white space may stand between them."""
    end = 0
    for found in compile_pattern(tag_pattern(args)).find_all(text):
        _require_space(text[end : found.start])
        end = found.end
        yield found.groups.get("key", ""), _value(found.groups.get("value", ""), args)
    _require_space(text[end:])


def _require_space(text: str) -> None:
    if text.strip():
        raise ValueError(f"text outside the parameters: {text.strip()!r:.80}")


def _lines(text: str, args: dict[str, JSON]) -> Iterator[tuple[str, JSON]]:
    """Yield the parameters of `kv-lines`."""
    separator = args.get("kv_sep", ":")
    for line in text.split(args.get("line_sep", "\n")):
        key, found, value = line.partition(separator)
        if not found:
            _require_space(line)
            continue
        yield key.strip(), _value(value.strip(), args)


def _value(text: str, args: dict[str, JSON]) -> JSON:
    parser = args.get("value_parser")
    if not isinstance(parser, dict) or parser.get("name", "text") == "text":
        return RawText(text.strip() if isinstance(parser, dict) else text)
    inner = parser.get("args", {})
    try:
        return _parse(parser["name"], text, inner)
    except (ValueError, RecursionError):
        if parser["name"] == "json" and inner.get("allow_non_json"):
            return RawText(text.strip())
        raise


def _members(pairs: Iterator[tuple[str, JSON]], *, merge: bool) -> dict[str, JSON]:
    found: dict[str, list[JSON]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
        if not merge and len(found[key]) > 1:
            raise ValueError(f"the key {key!r:.40} comes twice")
    return {key: values if len(values) > 1 else values[0] for key, values in found.items()}
