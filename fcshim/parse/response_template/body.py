"""Bodies of a tool-call field of a `response_template`: those with JSON stream, all others are read at their end.

Theory of operation. A start marker is the literal text that a field's opening pattern begins with. The rest of the
pattern is matched behind it; it may have the tool's name. JSON behind that is read like any JSON with a header. What
has another form is collected up to the closing text, and read then.

Rule: what is collected is limited, and is text if it is not a call.
"""

import functools
import json
from dataclasses import dataclass
from typing import Literal

import msgspec

from fcshim.events import JSON, CallErrorKind, StopReason
from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.body import NATURAL_STOPS, BodyReader, BodyStatus
from fcshim.parse.dialect import Dialect, compiled_closers
from fcshim.parse.json.header import HeaderMatch, HeaderShape
from fcshim.parse.limits import Limits
from fcshim.parse.response_template.call_shape import CallShape, with_value
from fcshim.parse.response_template.content import ContentError, RawText, ReadCall, read_calls, tag_pattern
from fcshim.parse.response_template.pattern import (
    PatternGroup,
    PatternMatch,
    PatternNode,
    compile_pattern,
    literal_runs,
    longest_literal,
    sample_text,
)
from fcshim.parse.response_template.template import TemplateField
from fcshim.parse.sink import CallSink
from fcshim.schema.expect import Expectation

_ARGUMENTS = "\ue0ff"
"""Stands for the arguments while a call is written: a character that no template contains."""
_MAX_OPENING = 256
"""Characters of a field's opening: a name of 128 characters and the markers around it fit."""
_SHORT_OPENING = 32
"""A longer text is matched only if it has the pattern's literal text: each piece of a reply is matched anew."""


@functools.lru_cache(maxsize=8)  # a header asks for a match, and then whether there may still be one
def _match(node: PatternNode, window: str) -> tuple[PatternMatch | None, bool]:
    """Match at the start of a text; the second part is True if more text could change the result."""
    pattern = compile_pattern(node)
    return pattern.match(window), pattern.hit_end


@dataclass(frozen=True, slots=True)
class _OpeningMatch:
    """A header match, with the name from the group that the template says."""

    found: PatternMatch
    group: str

    def end(self) -> int:
        return self.found.end

    def __getitem__(self, _key: str) -> str:
        return self.found.groups.get(self.group, "")


_NOTHING = PatternGroup(())


@dataclass(frozen=True, slots=True)
class OpeningPattern:
    """The rest of an opening pattern, after its literal start."""

    node: PatternNode = _NOTHING
    name_group: str = ""

    def match(self, text: str, pos: int) -> PatternMatch | Literal[False] | None:
        """Match at `pos`: False if nothing matches, None if more text could change the result."""
        window = text[pos : pos + _MAX_OPENING]
        may_grow = len(window) < _MAX_OPENING
        if len(window) > _SHORT_OPENING and longest_literal(self.node) not in window:
            return None if may_grow else False
        found, hit_end = _match(self.node, window)
        if hit_end and may_grow:
            return None
        return False if found is None else PatternMatch(pos, pos + found.end, found.groups)

    def match_at_end(self, text: str, pos: int) -> PatternMatch | Literal[False]:
        """Match at `pos` of a text that is complete."""
        found = compile_pattern(self.node).match(text, pos)
        return False if found is None else found

    def write(self, name: str) -> str:
        """Return a text that matches, with the tool's name."""
        return sample_text(self.node, {self.name_group: name})


_NO_OPENING = OpeningPattern()


@dataclass(frozen=True, slots=True)
class TemplateHeader(HeaderShape):
    """The rest of an opening pattern as the header of JSON."""

    opening: OpeningPattern = _NO_OPENING
    writer: "TemplateCalls | None" = None

    def match_header(self, text: str, pos: int) -> HeaderMatch | None:
        """Match a complete header."""
        found = self.opening.match(text, pos)
        return _OpeningMatch(found, self.opening.name_group) if found else None

    def may_still_match(self, text: str, pos: int) -> bool | None:
        """Return None if text that does not match may be the beginning of a header, else False."""
        return None if self.opening.match(text, pos) is None else False

    def write_call(self, opening: str, closing: str, name: str, arguments: str) -> str:
        """Write a call for the prompt."""
        assert self.writer is not None
        return self.writer.write_call(opening, closing, name, arguments)


@dataclass(frozen=True, slots=True)
class TemplateCalls:
    """A field of calls that is read at its end; `encoded` is the field as JSON text."""

    opening: OpeningPattern
    shape: CallShape
    encoded: bytes
    grammar: str = "json_call"

    @property
    def field(self) -> TemplateField:
        """The field of the template."""
        return msgspec.json.decode(self.encoded, type=TemplateField)

    def begins(self, text: str, pos: int) -> bool | None:
        """Return whether the rest of the opening pattern matches; None if more text is needed to decide."""
        found = self.opening.match(text, pos)
        return None if found is None else bool(found)

    def markers(self) -> tuple[str, ...]:
        """Return the fixed texts inside a body: those around parameters, and around strings."""
        field = self.field
        delimiters = [text for pair in field.content_args.get("string_delims", ()) for text in pair]
        return (
            (*literal_runs(tag_pattern(field.content_args)), *delimiters)
            if field.content == "xml-inline"
            else tuple(delimiters)
        )

    def reader(self, dialect: Dialect, _start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Create the reader of one body."""
        return TemplateBody(self, dialect, sink, limits)

    def write_call(self, opening: str, closing: str, name: str, arguments: str) -> str:
        """Write a call for the prompt; `arguments` is JSON text."""
        return f"{opening}{self.opening.write(name)}{self._write_content(name, arguments)}{closing}"

    def _write_content(self, name: str, arguments: str) -> str:
        field = self.field
        if field.content in {"xml-inline", "kv-lines"}:
            values = json.loads(arguments)
            return _write_members(field, values) if isinstance(values, dict) else arguments
        if not (self.shape.is_whole or self.shape.in_content):
            return arguments
        paths = self.shape.keys if self.shape.in_content else (("name",), ("arguments",))
        call = with_value(paths[1], _ARGUMENTS, with_value(paths[0], name, {}))
        text = json.dumps([call] if self.shape.each else call, ensure_ascii=False)
        return text.replace(f'"{_ARGUMENTS}"', arguments)


def _write_members(field: TemplateField, values: dict[str, JSON]) -> str:
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for key, value in values.items()
    }
    args = field.content_args
    if field.content == "kv-lines":
        line_end, separator = str(args.get("line_sep", "\n")), args.get("kv_sep", ":")
        return line_end.join(f"{key}{separator}{text}" for key, text in texts.items())
    node = tag_pattern(field.content_args)
    return "".join(sample_text(node, {"key": key, "value": text}) for key, text in texts.items())


class TemplateBody(BodyReader):
    """Collects one body and reads its calls at the end."""

    def __init__(self, calls: TemplateCalls, dialect: Dialect, sink: CallSink, limits: Limits) -> None:
        self._calls = calls
        self._sink = sink
        self._limits = limits
        self._writer = ArgumentWriter(sink, limits)
        self._end_markers = compiled_closers(dialect)
        self._groups: dict[str, str] | None = None
        """The groups of the opening pattern, once it has matched."""
        self._parts: list[str] = []
        self._size = 0
        self._refused = False

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` until the status changes, and return the position reached."""
        self.status = BodyStatus.READING
        if self._groups is None:
            found = self._calls.opening.match(text, pos)
            if not found:
                self.status = BodyStatus.READING if found is None else BodyStatus.NO_BODY
                return pos
            self._groups, pos = found.groups, found.end
        return self._collect(text, pos)

    def _collect(self, text: str, pos: int) -> int:
        found = self._end_markers.search(text, pos)
        end = found.start() if found else self._end_markers.partial_start(text, pos)
        self._parts.append(text[pos:end])
        self._size += end - pos
        if self._size > self._limits.search:
            self._fail("limit", f"more than {self._limits.search} characters that are read at their end")
            self.status = BodyStatus.ENDED
        elif found is not None:
            self._read_calls()
            self.status = BodyStatus.ENDED
        return found.end() if found else end

    def _read_calls(self) -> None:
        """Send the calls of the collected text; if there are none, the text remains text."""
        try:
            calls = read_calls(self._calls.field, self._calls.shape, "".join(self._parts), self._groups or {})
        except ContentError as error:
            self._fail("malformed", str(error))
            return
        for call in calls if not self._refused else ():
            name = self._sink.resolve(call.name)
            if name is not None:
                self._send(name, call)
        self._sink.finish()

    def _send(self, name: str, call: ReadCall) -> None:
        self._writer.start(name)
        try:
            self._writer.write("{")
            for at, (key, value) in enumerate(call.arguments.items()):
                self._writer.write(f"{', ' if at else ''}{_json(key)}: ")
                self._write_value(self._writer.expectation.member(key), value, [key])
            self._writer.write("}")
            self._writer.complete()
        except NotStrictError:
            self._sink.fail("malformed", "not JSON")
        except LimitError as error:
            self._sink.fail("limit", str(error))

    def _write_value(self, expected: Expectation, value: JSON, path: list[str | int]) -> None:
        if isinstance(value, RawText):
            self._writer.write_literal(self._writer.read_untyped(expected, value.text), value.text, path, expected)
        elif isinstance(value, list) and any(isinstance(item, RawText) for item in value):
            for at, item in enumerate(value):
                self._writer.write(", " if at else "[")
                self._write_value(expected.item(at), item, [*path, at])
            self._writer.write("]")
        else:
            self._writer.write(_json(value))

    def _fail(self, kind: CallErrorKind, message: str) -> None:
        """End the call with an error if the opening names an offered tool; otherwise its text remains text."""
        found = (self._groups or {}).get(self._calls.opening.name_group) or self._calls.shape.constant
        name = self._sink.resolve(found) if found and not self._refused else None
        if name is not None:
            self._sink.start(name)
            self._sink.fail(kind, message, "".join(self._parts))

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply; `tail` is what the last `feed` did not consume. Sets `status` and `unread`."""
        self.status = BodyStatus.ENDED
        if self._groups is None:
            found = self._calls.opening.match_at_end(tail, 0)
            if not found:
                return
            self._groups, tail = found.groups, tail[found.end :]
        if len(tail) > 1 and self._end_markers.is_partial(tail, 0):
            tail = ""
        self._parts.append(tail)
        # A body that nothing closes is complete only if it has something.
        if stop_reason in NATURAL_STOPS and any(part.strip() for part in self._parts):
            self._read_calls()
        else:
            self._fail("truncated", "the reply ended inside the call")

    def refuse(self) -> None:
        """Treat the current call and all later calls of this body as text."""
        self._refused = True

    def dispose(self) -> None:
        """Do nothing: there is no reference cycle."""


def _json(value: JSON) -> str:
    """Write strict JSON; a lone surrogate stays an escape."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text) else json.dumps(value)
