"""The dialect of a `response_template`.

Theory of operation. Fields become what the parser has: calls a dialect's body, reasoning its tags, the text field's
ends markup that is dropped. A tool-call field of a known shape is read by the reader of that shape, so that arguments
stream: JSON in tags, JSON after a name, Gemma's notation, parameters in tags.

Rule: openings begin with fixed text, and closings are fixed texts: the parser searches those; anything else is a
`ConfigError` that says so, and so is a field of another shape.
"""

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from fcshim.errors import ConfigError
from fcshim.parse.call_keys import ARGUMENT_KEYS, NAME_KEYS
from fcshim.parse.dialect import Body, CallMarkers, Dialect, Markers, TurnMarkup
from fcshim.parse.json.body import JsonShape
from fcshim.parse.literals.gemma_body import GemmaCalls
from fcshim.parse.response_template.opening import OpeningPattern, TemplateHeader
from fcshim.parse.response_template.pattern import (
    CharClass,
    PatternGroup,
    PatternNode,
    Repeated,
    flat,
    group_names,
    listed_texts,
    split_literal,
    widen_group,
    without_outer_space,
)
from fcshim.parse.response_template.template import (
    CONTENT,
    REASONING,
    CallShape,
    ResponseTemplate,
    TemplateField,
    call_shape,
    read_pattern,
)
from fcshim.parse.tagged.syntax import TaggedCalls
from fcshim.parse.tagged.tags import Tag, Tags

_CALLS = "tool_calls"
_MIN_MARKER = 2
"""Characters of an opening: a single one is too common in text."""
_TAG_WAITS = "values that the schema does not type as strings are sent whole: their type is known only at their end"
_TAG_WORD = re.compile(r"<([\w:.-]{1,64})")


class _Region(NamedTuple):
    """Where a field begins and ends: fixed texts, and the rest of the opening pattern."""

    opens: tuple[str, ...]
    rest: tuple[PatternNode, ...]
    closes: tuple[str, ...]


def template_dialect(name: str, template: ResponseTemplate) -> Dialect:
    """Return the dialect of a template. Raises `ConfigError` for what cannot be read while it streams."""
    fields = template.fields
    unknown = [field for field in fields if field not in {CONTENT, _CALLS, *REASONING}]
    if unknown or _CALLS not in fields:
        expected = f"expected fields of {CONTENT}, {_CALLS} and {', '.join(REASONING)}"
        raise ConfigError(f"response_template: {expected}, and {_CALLS} in any case, not {', '.join(fields)}")
    shape = call_shape(_CALLS, fields[_CALLS])
    region = _region(_CALLS, fields[_CALLS], shape.name_group)
    if not region.opens:
        raise ConfigError(f"response_template: fields.{_CALLS}: expected open or open_pattern")
    text = _region(CONTENT, fields[CONTENT]) if CONTENT in fields else _Region((), (), ())
    tags: list[tuple[str, str]] = []
    for field in (each for each in REASONING if each in fields):
        around = _region(field, fields[field])
        if not around.opens or around.rest or not around.closes:
            raise ConfigError(f"response_template: fields.{field}: expected fixed texts that open and close reasoning")
        tags += itertools.product(around.opens, around.closes)
    common = _Common(name, region, tuple(dict.fromkeys((*text.opens, *text.closes))), tuple(tags))
    return _calls_dialect(fields[_CALLS], shape, common)


class _Common(NamedTuple):
    """What the dialects of all shapes have."""

    name: str
    region: _Region
    markup: tuple[str, ...]
    reasoning: tuple[tuple[str, str], ...]

    def dialect(self, body: Body, templates: str, *, opens: tuple[str, ...] = (), waits: str = "") -> Dialect:
        """Make the dialect with this body."""
        first, *more = opens or self.region.opens
        close, *closes = self.region.closes or ("",)
        return Dialect(
            name=self.name,
            summary="a response_template",
            call=CallMarkers(first, close, opens=tuple(more), closes=tuple(closes)),
            body=body,
            result=Markers("<tool_response", "</tool_response>"),
            turn=TurnMarkup(tokens=tuple(text for text in self.markup if text != first), reasoning=self.reasoning),
            waits=waits,
            templates=templates,
        )


# Where fields begin and end.


def _region(name: str, field: TemplateField, name_group: str = "") -> _Region:
    opens, rest = _opening(name, field, name_group)
    closes = tuple(field.closes)
    if field.close_pattern is not None:
        listed = listed_texts(read_pattern(name, field.close_pattern))
        if listed is None:
            raise ConfigError(
                f"response_template: fields.{name}: expected a close_pattern of fixed texts, "
                f"not {field.close_pattern!r}"
            )
        closes = listed
    return _Region(opens, rest, _stripped(closes))


def _stripped(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Take white space off markers, because readers skip it; longer markers first."""
    found = dict.fromkeys(text.strip() for text in texts if text.strip())
    return tuple(text for text in found if not any(text != other and text.startswith(other) for other in found))


def _opening(name: str, field: TemplateField, name_group: str) -> tuple[tuple[str, ...], tuple[PatternNode, ...]]:
    if field.open_pattern is None:
        return _stripped(tuple(field.opens)), ()
    node = read_pattern(name, widen_group(field.open_pattern, name_group))
    listed = None if any(group_names(node)) else listed_texts(node)
    if listed:
        return _stripped(listed), ()
    literal, rest = split_literal(without_outer_space(flat(node)))
    if len(literal.strip()) < _MIN_MARKER:
        raise ConfigError(
            f"response_template: fields.{name}: expected an open_pattern that begins with fixed text of at least "
            f"{_MIN_MARKER} characters, not {field.open_pattern!r}"
        )
    return (literal.lstrip(),), rest


# The shapes of calls.


def _calls_dialect(field: TemplateField, shape: CallShape, common: _Common) -> Dialect:
    for recognise in (_json_dialect, _gemma_dialect, _named_json_dialect, _tagged_dialect):
        found = recognise(field, shape, common)
        if found is not None:
            return found
    raise ConfigError(
        f"response_template: fields.{_CALLS}: expected calls in JSON, or after an opening with the name arguments in "
        "JSON, in Gemma's notation, or in `xml-inline` whose tag_pattern has fixed tags, the group `key` and the group "
        "`value`"
    )


def _is_plain_json(field: TemplateField) -> bool:
    return field.content == "json" and not field.content_args.get("string_delims")


def _json_dialect(field: TemplateField, shape: CallShape, common: _Common) -> Dialect | None:
    """JSON with the name and the arguments."""
    keys = _json_keys(shape)
    if not _is_plain_json(field) or keys is None:
        return None
    if not common.region.rest:
        return common.dialect(keys, "hermes" if common.region.closes else "granite_20b_fc")
    return _header_dialect(shape, common, keys)


def _json_keys(shape: CallShape) -> JsonShape | None:
    if shape.is_whole:
        return JsonShape()
    name, arguments = shape.keys if shape.in_content else ((), ())
    if not name or not arguments or name[:-1] != arguments[:-1] or len(name) > 2:
        return None
    wrappers = JsonShape().wrapper_keys
    return JsonShape(
        name_keys=tuple(dict.fromkeys((name[-1], *NAME_KEYS))),
        argument_keys=tuple(dict.fromkeys((arguments[-1], *ARGUMENT_KEYS))),
        wrapper_keys=tuple(dict.fromkeys((*name[:-1], *wrappers))),
    )


def _named_json_dialect(field: TemplateField, shape: CallShape, common: _Common) -> Dialect | None:
    """JSON arguments after an opening with the name; where they are text, the text is JSON as well."""
    is_json = _is_plain_json(field) or field.content == "text"
    is_named = is_json and not shape.in_content and shape.arguments == (CONTENT,) and not shape.each
    return _header_dialect(shape, common, None) if is_named else None


def _header_dialect(shape: CallShape, common: _Common, keys: JsonShape | None) -> Dialect:
    opening = OpeningPattern(PatternGroup(common.region.rest), shape.name_group)
    header = TemplateHeader(header="", opening=opening, json=keys, name_in="header" if keys is None else "json")
    return common.dialect(header, "response_template")


def _gemma_dialect(field: TemplateField, shape: CallShape, common: _Common) -> Dialect | None:
    """Gemma's notation: `call:name{key:value}` with a token around strings."""
    delimiters = field.content_args.get("string_delims") or []
    [literal] = common.region.opens if len(common.region.opens) == 1 else [""]
    is_gemma = literal.endswith("call:") and len(literal) > len("call:") and field.content_args.get("unquoted_keys")
    if not is_gemma or shape.arguments != (CONTENT,) or not common.region.rest or len(delimiters) != 1:
        return None
    [(opening, closing)] = delimiters
    if opening != closing:
        return None
    dialect = common.dialect(GemmaCalls(), "gemma4", opens=(literal.removesuffix("call:"),))
    return replace(dialect, quote=opening)


def _tagged_dialect(field: TemplateField, shape: CallShape, common: _Common) -> Dialect | None:
    """Parameters in tags, after an opening with the name."""
    args = field.content_args
    pattern, parser = args.get("tag_pattern"), args.get("value_parser")
    typed = parser is None or (isinstance(parser, Mapping) and parser.get("name", "text") in {"text", "json"})
    is_named = field.content == "xml-inline" and shape.arguments == (CONTENT,) and len(shape.name) == 1
    is_supported = typed and not args.get("merge_duplicates")
    if not is_named or not is_supported or not isinstance(pattern, str) or len(common.region.opens) != 1:
        return None
    parameter = _parameter_tags(read_pattern(_CALLS, widen_group(pattern, "key")))
    call = _call_tags(common.region, shape.name[0])
    if parameter is None or call is None:
        return None
    tags = Tags(
        call=call.tag,
        call_close=call.close,
        parameter=parameter.tag,
        value_open=parameter.value_open,
        parameter_close=parameter.close,
        lines=parameter.lines,
    )
    others = [text for text in common.region.closes[1:] if call.body_close not in text]
    region = _Region((call.body_open,), (), (call.body_close, *others) if call.body_close else ())
    return common._replace(region=region).dialect(TaggedCalls(tags), "tagged", waits=_TAG_WAITS)


# Tags around calls and parameters.

_Piece = str | None
"""Fixed text, or None for optional white space."""


class _ParameterTags(NamedTuple):
    """The tags around one parameter."""

    tag: Tag
    value_open: str
    close: str
    lines: bool


class _CallTags(NamedTuple):
    """The tags around a call, and the markers around its body."""

    tag: Tag
    close: str
    body_open: str
    body_close: str


def _parameter_tags(node: PatternNode) -> _ParameterTags | None:
    """Return the tags of `<tag KEY>VALUE</tag>`, or of `<key>KEY</key><value>VALUE</value>`; None for others."""
    parts = _split_at_groups(flat(node), ("key", "value"))
    if parts is None:
        return None
    before, between, after = parts
    opening, middle, closing = (tuple(filter(None, pieces)) for pieces in (before, between, after))
    if len(opening) != 1 or len(closing) != 1 or len(middle) not in {1, 2} or None in before[1:]:
        return None
    lines = between[-1] is None or after[0] is None
    return _ParameterTags(Tag(opening[0], end=middle[0]), "".join(middle[1:]), closing[0], lines)


def _call_tags(region: _Region, name_group: str) -> _CallTags | None:
    """Return the tags of an opening with the call's name; None for others."""
    parts = _split_at_groups(region.rest, (name_group,))
    if parts is None:
        return None
    literal, before, after = region.opens[0], [piece for piece in parts[0] if piece], parts[1]
    end = next((piece for piece in after if piece), "")
    if len(before) > 1 or len([piece for piece in after if piece]) > 1:
        return None
    if not before and literal.endswith((">", "]")):
        return _CallTags(Tag("", end=end), region.closes[0], literal, region.closes[0]) if region.closes else None
    head_at = max(literal.rfind("<"), 0)
    body_open, head = (literal.strip(), before[0]) if before else (literal[:head_at].strip(), literal[head_at:])
    return _headed_call_tags(Tag(head, end=end), body_open, region.closes) if end else None


def _headed_call_tags(tag: Tag, body_open: str, closes: tuple[str, ...]) -> _CallTags | None:
    """Return the tags of a call with a tag of its own; a closing tag that is left out follows from the opening one."""
    word = _TAG_WORD.match(tag.head)
    own_close = f"</{word[1]}>" if word else ""
    first, _, last = (closes[0] if closes else "").replace("><", "> <").replace(">\n<", "> <").partition("> <")
    call_close, body_close = (f"{first}>", f"<{last}") if last else (own_close, first)
    if not body_open:
        call_close, body_close = (first or own_close, "")
    if not call_close or (last and not body_open):
        return None
    return _CallTags(tag, call_close, body_open or tag.head, body_close)


def _split_at_groups(parts: tuple[PatternNode, ...], names: tuple[str, ...]) -> list[list[_Piece]] | None:
    """Split parts at the groups with these names, in this order; None if anything else is not fixed text or space."""
    found: list[list[_Piece]] = [[]]
    expected = list(names)
    for part in parts:
        if isinstance(part, PatternGroup) and part.group:
            content = flat(PatternGroup(part.parts))
            # A group is one character class, repeated without limit.
            is_run = len(content) == 1 and isinstance(content[0], Repeated) and content[0].most is None
            if not expected or part.group != expected.pop(0) or not is_run:
                return None
            found.append([])
        elif isinstance(part, Repeated) and part.is_space:
            found[-1].append(None)
        elif isinstance(part, CharClass) and part.literal:
            _add_literal(found[-1], part.literal)
        else:
            return None
    return None if expected else found


def _add_literal(pieces: list[_Piece], char: str) -> None:
    if char in "\r\n":
        pieces.append(None)
    elif pieces and pieces[-1] is not None:
        pieces[-1] += char
    else:
        pieces.append(char)
