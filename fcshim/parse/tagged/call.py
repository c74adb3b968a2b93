"""One call of a body of tagged parameters, as it is sent: its start, its arguments, how it ends.

Theory of operation. A call to a tool that was not offered, and one that must not run, is `dry`: its body is read to the
end all the same, and nothing of it is sent.

Rule: the start is sent with the first parameter, so that as much as possible can still be text.
Neighbours: `body` reads the tags and says what they mean for the call, `arguments.writer` writes the JSON.
"""

import json

from fcshim.events import CallErrorKind
from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.strict import StrictJsonReader
from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.end_markers import compile_end_markers
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.parse.tagged.nested import NestedValue
from fcshim.parse.tagged.tags import NamedTag, Spelling
from fcshim.parse.tagged.untyped import UntypedValue
from fcshim.parse.tagged.value import TaggedValue
from fcshim.schema.expect import ANY

_encoded = json.JSONEncoder(ensure_ascii=False).encode


class TaggedCall:
    """Sends one call, or nothing."""

    def __init__(self, name: str | None, spelling: Spelling, writer: ArgumentWriter, sink: CallSink) -> None:
        """Take the tool's name, None where it is none that was offered."""
        self.name = name
        self.dry = name is None
        self.started = False
        self.given: dict[str, None] = {}
        """The keys of the parameters so far, in order."""
        self.whole = False
        """True where all arguments came as one object."""
        self.broken = False
        """True where that object was no JSON."""
        self._spelling = spelling
        self._writer = writer
        self._sink = sink
        self._object: ArgumentWriter | _Walker | None = None

    @property
    def begun(self) -> bool:
        """True where the call has arguments."""
        return bool(self.given) or self.whole

    def parameter(self, tag: NamedTag, limits: Limits) -> TaggedValue | NestedValue:
        """Begin a parameter; gives the reader of its value."""
        if not self.dry and (tag.name in self.given or self.whole):
            self.fail("malformed", f"the parameter {tag.name[:40]!r} comes twice")
        self._write_key(tag.name)
        self.given[tag.name] = None
        tags = self._spelling.tags
        arguments = ANY if self.dry else self._writer.expectation
        expected = arguments.member(tag.name)
        writer = None if self.dry else self._writer
        if tags.nested:
            return NestedValue(self._spelling, writer, tag.name, expected, limits)
        is_text = tag.type in tags.text_types
        value = UntypedValue(writer, expected, limits, (tag.name,), is_text=is_text) if writer is not None else None
        return TaggedValue(self._spelling, value, arguments, self.given.keys(), limits)

    def _write_key(self, key: str) -> None:
        if self.dry:
            return
        self._start()
        try:
            self._writer.write(("{" if not self.given else ", ") + _encoded(key) + ": ")
        except (LimitError, NotStrictError) as fault:
            self.fail_by(fault)

    def read_object(self, text: str, pos: int, limits: Limits) -> int:
        """Read all arguments as one JSON object, strict, up to its end or the text's; gives the place."""
        if self._object is None:
            self.whole = True
            if not self.dry:
                self._start()
            self._object = _Walker(limits) if self.dry else self._writer
        try:
            return self._object.read_available(text, pos)
        except (LimitError, NotStrictError) as fault:
            self.fail_by(fault)
            self.broken = True
            return max(pos, self._object.position) + 1

    @property
    def object_ended(self) -> bool:
        """True where the object is whole, or broken."""
        return self._object is not None and (self._object.is_complete or self.broken)

    def close(self) -> None:
        """The call is whole: it ends well when its surroundings do."""
        if self.dry:
            return
        self._start()
        try:
            if not self.whole:
                self._writer.write("}" if self.given else "{}")
            self._writer.complete()
        except (LimitError, NotStrictError) as fault:
            self.fail_by(fault)

    def fail_by(self, fault: LimitError | NotStrictError) -> None:
        """End the call with the error that this fault is."""
        if isinstance(fault, LimitError):
            self.fail("limit", str(fault))
        else:
            self.fail("malformed", "the arguments are not JSON")

    def fail(self, kind: CallErrorKind, message: str) -> None:
        """End the call with an error: it must not run."""
        if not self.dry:
            self._start()
            self._sink.fail(kind, message)
        self.dry = True

    def _start(self) -> None:
        if not self.started and self.name is not None:
            self.started = True
            self._writer.start(self.name)


class _Walker(StrictJsonReader):
    """Walks through an object that nobody wants."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(compile_end_markers(()), limits)
