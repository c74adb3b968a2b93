"""Read what stands in a call whose parameters each stand in a tag.

    _inside    between parameters                            a parameter, the end of the call or of the body
    _in_value  in a value                                    its end, which `value` finds
    _in_object in all arguments as one JSON object           its end
    _beside    behind what does not belong inside            any marker

Rule: a call whose end is missing ends where another begins, or with the body.
Neighbours: `body` reads what is around calls, `tags` reads tags, `value` values, `call` sends.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.body import BodyReader, BodyStatus
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.parse.tagged.call import TaggedCall
from fcshim.parse.tagged.nested import NestedValue
from fcshim.parse.tagged.tags import Kind, Read, Tags, spelling
from fcshim.parse.tagged.value import TaggedValue

TRAILER = 200
"""Characters that do not belong there which are passed over: a remark before a parameter or a closing marker."""


class InsideCall(BodyReader):
    """Reads one call after the other, each from behind its opening."""

    _state: Callable[[str, int], int]

    def __init__(self, tags: Tags, dialect: Dialect, opener: str, sink: CallSink, limits: Limits) -> None:
        self.status = BodyStatus.READING
        self.unread = ""
        self.call_count = 0
        self._tags = tags
        self._spelling = spelling(tags, dialect.openers(), dialect.closers())
        self._opener = opener
        self._wrapped = not (tags.call.head and opener.startswith(tags.call.head))
        """False where the opening marker is a call's own tag."""
        self._sink = sink
        self._limits = limits
        self._writer = ArgumentWriter(sink, limits)
        self._wait = False
        self._call = self._new_call(None)
        self._counted: TaggedCall | None = None
        """The last call that was started."""
        self._value: TaggedValue | NestedValue | None = None
        self._refused = False
        self._junk_size = 0

    @abstractmethod
    def _between(self, text: str, pos: int) -> int:
        """Read what stands between calls."""

    @abstractmethod
    def _behind(self, text: str, pos: int) -> int:
        """Read what stands behind a call that is a body of its own."""

    # In a call.

    def _inside(self, text: str, pos: int) -> int:
        at = self._spelling.skip(text, pos)
        if at > pos:
            return at
        match self._kind(text, pos):
            case None:
                return pos
            case "parameter" | "call" | "open" as kind:
                return self._opening_inside(kind, text, pos)
            case "call_close" | "close" as kind:
                self._close_call()
                if kind == "close":
                    self._end()
                return self._spelling.behind(text, pos)
            case _ if text[pos] == "{" and not (self._call.begun or self._junk_size):
                self._state = self._in_object
                return pos
            case _:
                return self._skip(pos)

    def _opening_inside(self, kind: Kind, text: str, pos: int) -> int:
        tag: Read = False
        if kind == "parameter":
            tag = self._spelling.parameter(text, pos)
        elif self._call.begun or (self._call.dry and kind == "call"):
            self._close_call()  # its closing tag is missing
            return pos
        elif kind == "open":
            return self._left(pos)
        else:
            tag = self._spelling.call(text, pos)  # the opening is doubled
        if tag is False:
            return self._skip(pos)
        if tag is None or kind == "call":
            return self._named(tag, 0, pos)
        self._value = self._call.parameter(tag, self._limits)
        self._state = self._in_value
        self._note_start()
        return tag.end

    def _named(self, found: Read, offset: int, pos: int) -> int:
        """A call's opening was read, or more of it must be seen."""
        if not found:
            self._wait = found is None
            return pos
        self._call = self._new_call(self._resolve(found.name))
        self._state = self._inside
        if self._call.dry:
            self._go_dry()
        return offset + found.end

    def _skip(self, pos: int) -> int:
        """Something that does not belong between parameters begins."""
        self._junk_size += 1
        self._state = self._beside
        return pos + 1

    def _beside(self, text: str, pos: int) -> int:
        """Pass over what does not belong between parameters, up to a marker."""
        found = self._spelling.inside.search(text, pos)
        end = found.start() if found else self._spelling.inside.partial_start(text, pos)
        self._wait = found is None and end < len(text)
        if found is not None:
            self._state = self._inside
        self._junk_size += end - pos
        if self._junk_size > TRAILER and not self._call.dry:
            if self._call.started:
                self._call.fail("malformed", "expected a parameter or the end of the call")
            else:
                self._go_dry()
        return end

    def _left(self, pos: int) -> int:
        """Another body begins where this one has just said a name."""
        if self._call.dry:
            self.status = BodyStatus.ENDED
        else:
            self._go_dry()
        return pos

    def _in_object(self, text: str, pos: int) -> int:
        """All arguments are written as one JSON object."""
        end = self._call.read_object(text, pos, self._limits)
        self._note_start()
        if self._call.object_ended:
            self._state = self._inside
        self._wait = not self._call.object_ended and end < len(text)
        return end

    def _in_value(self, text: str, pos: int) -> int:
        value = self._value
        assert value is not None
        pos = value.feed(text, pos)
        self._wait = value.wait
        self.in_content = value.flows
        if value.fault is not None:
            self._call.fail_by(value.fault)
            value.fault = None
        if value.ended:
            self._value = None
            self._state = self._inside
        return pos

    # What becomes of the call.

    def _new_call(self, name: str | None) -> TaggedCall:
        self._junk_size = 0
        return TaggedCall(name, self._spelling, self._writer, self._sink)

    def _resolve(self, name: str) -> str | None:
        if self._refused:
            return None
        half = name[: len(name) // 2]
        once = half if self._tags.twice and name == f"{half}.{half}" else ""
        return self._sink.resolve(name) or (self._sink.resolve(once) if once else None)

    def _kind(self, text: str, pos: int) -> Kind | Literal[False] | None:
        kind = self._spelling.kind_at(text, pos)
        self._wait = kind is None
        return kind

    def _note_start(self) -> None:
        if self._call.started and self._call is not self._counted:
            self._counted = self._call
            self.call_count += 1
            self.status = BodyStatus.STARTED

    def _close_call(self) -> None:
        """The call is whole: it ends well when the body does, at once where no marker surrounds it."""
        self._call.close()
        self._note_start()
        if self._wrapped:
            self.status = BodyStatus.CALL_ENDED
            self._state = self._between
        else:
            self._sink.finish()
            self._state = self._behind

    def _end(self) -> None:
        """The body is over, and what it holds counts."""
        self._sink.finish()
        self.status = BodyStatus.ENDED

    def _go_dry(self) -> None:
        """This call is none: walk to its end without sending."""
        self._sink.finish()
        self._call.dry = True
        if self._value is not None:
            self._value.drop()
        if self.status is BodyStatus.READING:
            self.status = BodyStatus.NOT_A_CALL
