"""Send one call with tagged parameters: its start, its arguments and its end.

A call to a tool that was not offered, and one that must not run, is discarded: its body is still read to the end, but
nothing of it is sent.

Rule: the start is sent with the first parameter, because until then the body may turn out to be text.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from fcshim.events import JSON, CallErrorKind
from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.entities import holds_entity
from fcshim.parse.arguments.strict import StrictJsonReader
from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.body import BodyProgress
from fcshim.parse.limits import Limits
from fcshim.parse.markers import compile_end_markers
from fcshim.parse.sink import CallSink
from fcshim.parse.tagged.damage import holds_damaged_tag
from fcshim.parse.tagged.markup import CallMarkup
from fcshim.parse.tagged.nested import NestedValue
from fcshim.parse.tagged.tag_reading import CompiledTags, NamedTag
from fcshim.parse.tagged.untyped import AmbiguousValueError, UnreadableValueError, UntypedValue, WrappedArguments
from fcshim.parse.tagged.value import TaggedValue
from fcshim.parse.tagged.value_reader import ValueReader
from fcshim.schema.expect import ANY

_encode_json = json.JSONEncoder(ensure_ascii=False).encode
_WRAPPERS = frozenset({"arguments", "parameters", "properties", "input", "args", "kwargs", "params"})
"""Parameters that models invent to hold all arguments as one object."""

_DAMAGED = "a damaged tag, or a value that contains it"
_MAX_CLOSERS = 10
_ASSIGNMENT = re.compile(
    r"(?:[ \t]{1,8}|(?<=[\"']),[ \t]{0,8})([^\W\d][\w.-]{0,127})="
    r"(?:\"([^\"\\<>]*)\"|'([^'\\<>]*)'|(-?(?:0|[1-9]\d{0,15})(?:\.\d{1,15})?|true|false|null)(?=[ \t]|\Z))"
)


Assignment: TypeAlias = tuple[str, str, bool]
"""An argument in the line of the tool's name, `days=3`: its key, its text, and whether that is quoted."""


def read_assignments(line: str) -> tuple[str, list[Assignment]]:
    """Return the name and the arguments in a line such as `get_weather city="San Jose" days=3`.

    There are none unless the whole line is that: strings in quotes, other scalars without.
    """
    name, blank, _ = line.partition(" ")
    pos, found = len(name), []
    while (match := _ASSIGNMENT.match(line, pos)) is not None:
        found.append((match[1], match[4] or match[2] or match[3] or "", match[4] is None))
        pos = match.end()
    return (name, found) if blank and pos == len(line) else (line, [])


class TaggedCall:
    """Sends one call, or nothing while `progress` says that it is discarded."""

    def __init__(
        self, name: str | None, compiled: CompiledTags, writer: ArgumentWriter, sink: CallSink, progress: BodyProgress
    ) -> None:
        """Prepare a call; `name` is None where the tool was not offered."""
        self.name = name
        self.seen_keys: dict[str, None] = {}
        """The keys of the parameters so far, in order (a dict serves as an ordered set)."""
        self.object_ended = False
        """True where the JSON object that holds all arguments is complete or invalid."""
        self._compiled = compiled
        self.markup = CallMarkup(
            compiled, frozenset(sink.tools.parameter_names(name)) if name is not None else frozenset()
        )
        """What may stand between the parameters."""
        self._writer = writer
        self._sink = sink
        self._progress = progress
        self._wrapped: WrappedArguments | None = None
        self._doubtful: dict[str, TaggedValue] = {}
        """Values that ended where it was not certain, by their keys."""
        self._object: ArgumentWriter | StrictJsonReader | None = None

    @property
    def has_object(self) -> bool:
        """True where all arguments are written as one JSON object instead of parameters."""
        return self._object is not None or (self._wrapped is not None and self._wrapped.is_whole)

    @property
    def has_arguments(self) -> bool:
        """True where at least one parameter or the object was read."""
        return bool(self.seen_keys) or self.has_object

    def begin_parameter(self, tag: NamedTag, limits: Limits) -> ValueReader:
        """Begin a parameter and return the reader of its value."""
        tags, value = self._compiled.tags, None
        is_text, is_json = tag.type in tags.text_types, tag.type in tags.json_types()
        wrapped = self._begin_wrapped(tag, limits, is_text=is_text)
        if wrapped is not None:
            return wrapped
        if tag.name in self.seen_keys or self.has_object:
            self.fail("malformed", f"the parameter {tag.name[:40]!r} comes twice")
        self._write_key(tag.name)
        discarding = self._progress.discarding
        expected = ANY if discarding else self._writer.expectation.member(tag.name)
        if tags.nested and not tag.close:
            writer = None if discarding else self._writer
            return NestedValue(
                self._compiled, writer, tag.name, expected, limits, self.markup.keys - self.seen_keys.keys()
            )
        if not discarding:
            value = UntypedValue(self._writer, expected, limits, (tag.name,), is_text=is_text, is_json=is_json)
        return TaggedValue(self.markup, value, tag, self.seen_keys.keys())

    def add_argument(self, argument: Assignment, limits: Limits) -> None:
        """Write an argument whose text is known. An entity in it has two readings."""
        self._write_key(argument[0])
        self._attempt(self._write_argument, argument, limits)

    def _write_argument(self, argument: Assignment, limits: Limits) -> None:
        key, text, is_quoted = argument
        if holds_entity(text):
            raise AmbiguousValueError
        value = UntypedValue(self._writer, self._writer.expectation.member(key), limits, (key,), is_text=is_quoted)
        value.add(text)
        value.end()

    def _begin_wrapped(self, tag: NamedTag, limits: Limits, *, is_text: bool) -> TaggedValue | None:
        """Begin a first parameter that may hold all arguments; None for any other, such as one of the tool's."""
        if tag.name not in _WRAPPERS or self.has_arguments or self._progress.discarding or self._compiled.tags.nested:
            return None
        only_text = self._sink.tools.expectation_of(self.name or "").member(tag.name).only_strings
        if only_text or not self.markup.keys or tag.name in self.markup.keys:
            return None
        self._start_call()
        self.seen_keys[tag.name] = None
        self._wrapped = WrappedArguments(self._writer, tag.name, self.markup.keys, limits, is_text=is_text)
        return TaggedValue(self.markup, self._wrapped, tag, self.seen_keys.keys())

    def _write_key(self, key: str) -> None:
        if not self._progress.discarding:
            self._start_call()
        self._attempt(self._writer.write, ("{" if not self.seen_keys else ", ") + _encode_json(key) + ": ")
        self.seen_keys[key] = None

    def _attempt(self, write: Callable[..., None], *arguments: object) -> None:
        """Write, unless the call is discarded; an error ends the call."""
        if not self._progress.discarding:
            try:
                write(*arguments)
            except (LimitError, NotStrictError) as error:
                self.fail_with(error)

    def read_object(self, text: str, pos: int, limits: Limits) -> int:
        """Read all arguments as one strict JSON object; return the position after its end, or where more is needed."""
        if self._object is None:
            if self._progress.discarding:
                self._object = StrictJsonReader(compile_end_markers(()), limits)
            else:
                self._start_call()
                self._object = self._writer
        try:
            end = self._object.read(text, pos)
            self.object_ended = self._object.is_complete
        except (LimitError, NotStrictError) as error:
            self.fail_with(error)
            self.object_ended = True
            return max(pos, self._object.position) + 1
        return end

    def end_value(self, value: ValueReader) -> None:
        """Remember a value in which a damaged tag may be: it is looked for when the arguments are complete."""
        if isinstance(value, TaggedValue) and value.may_be_damaged and not self._progress.discarding:
            self._doubtful[next(reversed(self.seen_keys))] = value

    def _find_defect(self) -> str:
        """Return why the complete arguments are not certain; empty if nothing shows that."""
        tags = self._compiled.tags
        if tags.nested and holds_damaged_tag(self._sink.arguments(), tags.parameter.head):
            return _DAMAGED
        arguments = json.loads(self._sink.arguments()) if self._doubtful else {}
        for key, value in self._doubtful.items():
            content = arguments.get(key)
            if isinstance(content, str) and value.is_damaged(content):
                return _DAMAGED
            is_shared = value.closing_tag == tags.parameter_close
            if is_shared and value.roles.stray_closers and self._may_be_quoted(key, arguments):
                return "a parameter that a value before it may quote"
        return ""

    def _may_be_quoted(self, key: str, arguments: Mapping[str, JSON]) -> bool:
        """Return whether a text before a parameter may go on over it: none of what it goes over is required."""
        keys = list(self.seen_keys)
        end = keys.index(key) + 1
        return any(
            isinstance(arguments.get(keys[start]), str)
            and not self._writer.expectation.misses_required(self.seen_keys.keys() - set(keys[start + 1 : end]))
            for start in range(end - 1)
        )

    def close(self) -> None:
        """Complete the arguments. The call is accepted when the body ends or the next call starts."""
        if self._progress.discarding:
            return
        self._start_call()
        self._attempt(self._complete)

    def _complete(self) -> None:
        defect = "a tag in place of the arguments"
        if self.has_arguments or not self.markup.wrapper:
            if not self.has_object:
                self._writer.write("}" if self.seen_keys else "{}")
            self._writer.complete()
            defect = self._find_defect()
        if defect:
            self.fail("malformed", defect)

    def last_quote(self) -> str:
        """Return the quotation mark with which the last value of the complete arguments ends, or an empty string."""
        end = self._sink.arguments()[-_MAX_CLOSERS:].rstrip(" \t\r\n]}")
        return end[-2] if end.endswith(('\\""', "'\"", '`"')) else ""

    def fail_with(self, error: LimitError | NotStrictError) -> None:
        """End the call with the error that corresponds to an exception."""
        if isinstance(error, LimitError):
            self.fail("limit", str(error))
        else:
            reason = error.reason if isinstance(error, UnreadableValueError) else "the arguments are not JSON"
            self.fail("malformed", reason)

    def fail(self, kind: CallErrorKind, message: str) -> None:
        """End the call with an error: it must not run."""
        if not self._progress.discarding:
            self._start_call()
            self._sink.fail(kind, message)
        self._progress.discarding = self._progress.discarding or "call"

    def _start_call(self) -> None:
        if not self._progress.started and self.name is not None:
            self._writer.start(self.name)
            self._progress.report_start()
