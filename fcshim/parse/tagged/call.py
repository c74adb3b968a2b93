"""Send one call with tagged parameters: its start, its arguments and its end.

A call to a tool that was not offered, and one that must not run, is discarded: its body is still read to the end, but
nothing of it is sent.

Rule: the start is sent with the first parameter, because until then the body may turn out to be text.
"""

import json
import re
from collections.abc import Mapping, Set

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
from fcshim.parse.tagged.tags import Assignment, CompiledTags, NamedTag
from fcshim.parse.tagged.untyped import AmbiguousValueError, MissingValueError, UntypedValue, WrappedArguments
from fcshim.parse.tagged.value import TaggedValue
from fcshim.schema.expect import ANY

_encode_json = json.JSONEncoder(ensure_ascii=False).encode
_WRAPPERS = frozenset({"arguments", "parameters", "properties", "input", "args", "kwargs", "params"})
"""Parameters that models invent to hold all arguments as one object."""

_LAST_QUOTE = re.compile(r"""(\\"|['`])"\s*[\]}]{1,4}\Z""")
"""The end of the last string of complete arguments, if that is a quotation mark."""
_LAST_QUOTE_SIZE = 10


class TaggedCall:
    """Sends one call, or nothing while `progress` says that it is discarded."""

    def __init__(
        self, name: str | None, compiled: CompiledTags, writer: ArgumentWriter, sink: CallSink, progress: BodyProgress
    ) -> None:
        """Prepare a call; `name` is None where the tool was not offered."""
        self.name = name
        self.seen_keys: dict[str, None] = {}
        """The keys of the parameters so far, in order (a dict serves as an ordered set)."""
        self.has_object = False
        """True where all arguments are written as one JSON object instead of parameters."""
        self.object_invalid = False
        """True where that object is not strict JSON."""
        self._compiled = compiled
        self.markup = CallMarkup(compiled, frozenset(sink.parameter_names(name)) if name is not None else frozenset())
        """What may stand between the parameters."""
        self._writer = writer
        self._sink = sink
        self._progress = progress
        self._last: UntypedValue | None = None
        """The value of the last parameter."""
        self._wrapped: WrappedArguments | None = None
        self._doubtful: dict[str, TaggedValue] = {}
        """Values that ended where it was not certain, by their keys."""
        self._words: Set[str] = frozenset()
        """The values in the line of the tool's name that stand there without quotes."""
        self._object: ArgumentWriter | StrictJsonReader | None = None

    @property
    def has_arguments(self) -> bool:
        """True where at least one parameter or the object was read."""
        return bool(self.seen_keys) or self.has_object

    def begin_parameter(self, tag: NamedTag, limits: Limits) -> TaggedValue | NestedValue:
        """Begin a parameter and return the reader of its value."""
        if self._repeats_last(tag):
            return self._begin_next_element(tag, limits)
        self._flush_last()
        self.has_object = self.has_object or (self._wrapped is not None and self._wrapped.is_whole)
        if self._may_wrap(tag):
            return self._begin_wrapped(tag, limits)
        if not self._progress.discarding and (tag.name in self.seen_keys or self.has_object):
            self.fail("malformed", f"the parameter {tag.name[:40]!r} comes twice")
        self._write_key(tag.name)
        self.seen_keys[tag.name] = None
        tags = self._compiled.tags
        arguments = ANY if self._progress.discarding else self._writer.expectation
        expected = arguments.member(tag.name)
        writer = None if self._progress.discarding else self._writer
        if tags.nested and not tag.close:
            siblings = self.markup.keys - self.seen_keys.keys()
            return NestedValue(self._compiled, writer, tag.name, expected, limits, siblings)
        is_text = tag.type in tags.text_types
        value: UntypedValue | None = None
        if writer is not None:
            is_json = tag.type in tags.json_types()
            value = UntypedValue(
                writer, expected, limits, (tag.name,), is_text=is_text, is_json=is_json, repeatable=True
            )
        self._last = value
        reader = TaggedValue(self.markup.for_value(tag), value, tag.name, self.seen_keys.keys())
        reader.lacks_opening = tag.lacks_value_open
        return reader

    def add_argument(self, argument: Assignment, limits: Limits) -> None:
        """Write an argument whose text is known. An entity in it has two readings."""
        if not argument.is_quoted:
            self._words |= {argument.text}
        self._write_key(argument.key)
        self.seen_keys[argument.key] = None
        expected = self._writer.expectation.member(argument.key)
        try:
            if holds_entity(argument.text):
                raise AmbiguousValueError
            value = UntypedValue(self._writer, expected, limits, (argument.key,), is_text=argument.is_quoted)
            value.add(argument.text)
            value.end()
        except (LimitError, NotStrictError) as error:
            self.fail_with(error)

    def _may_wrap(self, tag: NamedTag) -> bool:
        """Return whether the first parameter may hold all arguments: it is none of the tool's parameters."""
        if tag.name not in _WRAPPERS or self.has_arguments or self._progress.discarding or self._compiled.tags.nested:
            return False
        parameters = self._sink.parameter_names(self.name or "")
        return bool(parameters) and tag.name not in parameters

    def _begin_wrapped(self, tag: NamedTag, limits: Limits) -> TaggedValue:
        self._start_call()
        self.seen_keys[tag.name] = None
        parameters, is_text = self._sink.parameter_names(self.name or ""), tag.type in self._compiled.tags.text_types
        self._wrapped = WrappedArguments(self._writer, tag.name, parameters, limits, is_text=is_text)
        return TaggedValue(self.markup.for_value(tag), self._wrapped, tag.name, self.seen_keys.keys())

    def _repeats_last(self, tag: NamedTag) -> bool:
        """Return whether the parameter is the next element of the array that the last one began."""
        repeats = self._last is not None and self._last.may_repeat and not self._progress.discarding
        return repeats and tag.name == next(reversed(self.seen_keys))

    def _begin_next_element(self, tag: NamedTag, limits: Limits) -> TaggedValue | NestedValue:
        assert self._last is not None
        self._last.begin_next_element()
        if self._compiled.tags.nested and not tag.close:
            expected = self._writer.expectation.member(tag.name)
            siblings = self.markup.keys - self.seen_keys.keys()
            last, self._last = self._last, None
            return NestedValue(self._compiled, self._writer, tag.name, expected, limits, siblings, last)
        return TaggedValue(self.markup.for_value(tag), self._last, tag.name, self.seen_keys.keys())

    def _flush_last(self) -> None:
        """Write the last value, if it waits for further elements."""
        last, self._last = self._last, None
        if last is None or not last.may_repeat or self._progress.discarding:
            return
        try:
            last.flush()
        except (LimitError, NotStrictError) as error:
            self.fail_with(error)

    def _write_key(self, key: str) -> None:
        if self._progress.discarding:
            return
        self._start_call()
        try:
            self._writer.write(("{" if not self.seen_keys else ", ") + _encode_json(key) + ": ")
        except (LimitError, NotStrictError) as error:
            self.fail_with(error)

    def read_object(self, text: str, pos: int, limits: Limits) -> int:
        """Read all arguments as one strict JSON object; return the position after its end, or where more is needed."""
        if self._object is None:
            self.has_object = True
            if not self._progress.discarding:
                self._start_call()
            discarding = self._progress.discarding
            self._object = StrictJsonReader(compile_end_markers(()), limits) if discarding else self._writer
        try:
            return self._object.read(text, pos)
        except (LimitError, NotStrictError) as error:
            self.fail_with(error)
            self.object_invalid = True
            return max(pos, self._object.position) + 1

    @property
    def object_ended(self) -> bool:
        """True where the object is complete or invalid."""
        return self._object is not None and (self._object.is_complete or self.object_invalid)

    def end_value(self, value: TaggedValue | NestedValue) -> None:
        """Remember a value in which a damaged tag may be: it is looked for when the arguments are complete."""
        if isinstance(value, NestedValue):
            self._last = value.last
        elif value.may_be_damaged and not self._progress.discarding:
            self._doubtful[next(reversed(self.seen_keys))] = value

    def _check_doubtful(self) -> None:
        """Fail where a value contains a damaged tag."""
        tags = self._compiled.tags
        if tags.nested and holds_damaged_tag(self._sink.unfinished_arguments, tags.parameter.head):
            self.fail("malformed", "a damaged tag, or a value that contains it")
        if not self._doubtful:
            return
        arguments = json.loads(self._sink.unfinished_arguments)
        for key, value in self._doubtful.items():
            content = arguments.get(key)
            if isinstance(content, list) and len(content) == 1:  # one value as an array
                content = content[0]
            if isinstance(content, str) and value.is_damaged(content):
                self.fail("malformed", "a damaged tag, or a value that contains it")
                return
            is_shared = value.closing_tag == tags.parameter_close
            if is_shared and value.roles.stray_closers and self._may_be_quoted(key, arguments):
                self.fail("malformed", "a parameter that a value before it may quote")
                return

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
        self._flush_last()
        if self._progress.discarding:
            return
        self._start_call()
        self.has_object = self.has_object or (self._wrapped is not None and self._wrapped.is_whole)
        if self.markup.has_open_wrapper and not self.has_arguments:
            self.fail("malformed", "a tag in place of the arguments")
            return
        try:
            if not self.has_object:
                self._writer.write("}" if self.seen_keys else "{}")
            self._writer.complete()
            self._check_doubtful()
            if not self._progress.discarding and self._sink.misplaces(self._words):
                self.fail("malformed", "words without quotes where the schema admits no string")
        except (LimitError, NotStrictError) as error:
            self.fail_with(error)

    def last_quote(self) -> str:
        """Return the quotation mark with which the last value of the complete arguments ends, or an empty string."""
        found = _LAST_QUOTE.search(self._sink.unfinished_arguments[-_LAST_QUOTE_SIZE:])
        return found[1][-1] if found else ""

    def fail_with(self, error: LimitError | NotStrictError) -> None:
        """End the call with the error that corresponds to an exception."""
        if isinstance(error, LimitError):
            self.fail("limit", str(error))
        elif isinstance(error, MissingValueError):
            self.fail("malformed", "a parameter has no value")
        elif isinstance(error, AmbiguousValueError):
            self.fail("malformed", "a parameter's value has two readings")
        else:
            self.fail("malformed", "the arguments are not JSON")

    def fail(self, kind: CallErrorKind, message: str) -> None:
        """End the call with an error: it must not run."""
        if not self._progress.discarding:
            self._start_call()
            self._sink.fail(kind, message)
        self._progress.discarding = True

    def _start_call(self) -> None:
        if not self._progress.started and self.name is not None:
            self._writer.start(self.name)
            self._progress.report_start()
