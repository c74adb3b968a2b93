"""Read the body of calls whose parameters each stand in a tag: `<function=f><parameter=k>v</parameter></function>`.

Theory of operation. Each state knows what may stand at its place; tags are read whole, values while they are written.

    _lead      behind a marker with a header                 the header; else the body is none
    _begin     behind the marker that opened the body        a call's opening; else the body is none
    _between   between calls                                 a call's opening, the body's end
    _inside    between parameters                            a parameter, the end of the call or of the body
    _in_value  in a value                                    its end, which `value` finds
    _in_object in all arguments as one JSON object           its end
    _behind    behind a call that no marker surrounds        the marker that ends a body, which may follow it
    _beside    behind what does not belong inside            any marker
    _trailer   behind what does not belong between           a call's opening, the body's end, too much of it

Rule: what is no call is walked to its end all the same, so that a call inside its values is not seen.
Neighbours: `tags` reads tags, `value` values, `call` sends; `stream` acts on `status`.
"""

from collections.abc import Callable
from typing import Literal

from fcshim.events import StopReason
from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.body import BodyReader, Status
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.parse.tagged.call import TaggedCall
from fcshim.parse.tagged.nested import NestedValue
from fcshim.parse.tagged.tags import Header, Kind, Read, Tags, spelling
from fcshim.parse.tagged.value import TaggedValue

_TRAILER = 200
"""Characters that do not belong there which are passed over: a remark before a parameter or a closing marker."""
_LONGEST_OPENING = 1_600
"""Characters in which a call's opening is told, white space and what follows it included."""
_LONGEST_ESCAPE = 6
_NATURAL = frozenset({"complete", "stop_sequence", "tool_use"})


class TaggedBody(BodyReader):
    """Reads one body."""

    def __init__(
        self, tags: Tags, header: Header | None, dialect: Dialect, opener: str, sink: CallSink, limits: Limits
    ) -> None:
        self.status = Status.READING
        self.rest = ""
        self.calls = 0
        self._tags = tags
        self._spelling = spelling(tags, dialect.openers(), dialect.closers())
        self._opener = opener
        self._wrapped = not (tags.call.head and opener.startswith(tags.call.head))
        """False where the opening marker is a call's own tag."""
        self._sink = sink
        self._limits = limits
        self._writer = ArgumentWriter(sink, limits)
        self._wait = False
        self._header = header
        headed = header is not None and opener.endswith(header.mark)
        self._state: Callable[[str, int], int] = self._lead if headed else self._begin
        self._call = self._new_call(None)
        self._counted: TaggedCall | None = None
        """The last call that was started."""
        self._value: TaggedValue | NestedValue | None = None
        self._refused = False
        self._junk: list[str] = []
        self._junk_size = 0

    def _new_call(self, name: str | None) -> TaggedCall:
        self._junk_size = 0
        return TaggedCall(name, self._spelling, self._writer, self._sink)

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` up to the next status; what is not consumed must come again, with more behind it."""
        reading = self.status = Status.READING
        self._wait = False
        size = len(text)
        while pos < size:
            pos = self._state(text, pos)
            if self._wait or self.status is not reading:
                break
        return pos

    def string_piece(self, text: str) -> bool:
        """Send `text` at once if it lies wholly inside a value that is text; else do nothing. The quick way."""
        if self._spelling.plain.fullmatch(text) is None or not self._sink.has_room(_LONGEST_ESCAPE * len(text)):
            return False
        self._writer.write_text(text)
        return True

    def refuse(self) -> None:
        """Take the call that is being read for text, and all that follow it in this body: none of them counts."""
        self._refused = True
        self._go_dry()

    def dispose(self) -> None:
        """Break the reference to itself, so that a body's memory is free at once."""
        self._state = _over

    # Between calls.

    def _lead(self, text: str, pos: int) -> int:
        assert self._header is not None
        end = self._header.end(text, pos)
        self._wait = end is None
        if end is None:
            return pos
        if end < 0:
            self.status = Status.REJECTED
            return pos
        self._state = self._begin
        return end

    def _begin(self, text: str, pos: int) -> int:
        """The call's opening follows the marker, or is it."""
        lead = "" if self._wrapped else self._opener
        read = self._spelling.call if self._wrapped and self._tags.call.head else self._spelling.whole_call
        found = read(lead + text[pos : pos + _LONGEST_OPENING], 0)
        if found is False:
            self.status = Status.REJECTED
        return self._named(found, pos - len(lead), pos)

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

    def _resolve(self, name: str) -> str | None:
        if self._refused:
            return None
        half = name[: len(name) // 2]
        once = half if self._tags.twice and name == f"{half}.{half}" else ""
        return self._sink.resolve(name) or (self._sink.resolve(once) if once else None)

    def _between(self, text: str, pos: int) -> int:
        at = self._spelling.skip(text, pos)
        if at > pos:
            return at
        kind = self._kind(text, pos)
        if kind == "call" and (found := self._spelling.call(text, pos)) is not False:
            return self._named(found, 0, pos)
        if kind in {"close", "open"}:
            self._end()
        if kind in {"close", "call_close"}:  # the call's own may be doubled
            return self._spelling.behind(text, pos)
        if kind is None or kind == "open":
            return pos
        self._junk.append(text[pos])
        self._state = self._trailer
        return pos + 1

    def _trailer(self, text: str, pos: int) -> int:
        """Look for what goes on, or ends the body, behind something that does not belong there."""
        found = self._spelling.inside.search(text, pos, pos + _LONGEST_OPENING)
        end = found.start() if found else self._spelling.inside.tail(text, pos)
        self._junk.append(text[pos:end])
        if sum(map(len, self._junk)) > _TRAILER:
            self.rest = "".join(self._junk)
            self._end()
        elif found is None or self._spelling.inside.begun(text, end):
            self._wait = end < len(text)
        elif self._spelling.kinds[found[0]] == "parameter":
            self._junk.append(found[0])
            return found.end()
        else:
            self._junk.clear()
            self._state = self._between
        return end

    def _behind(self, text: str, pos: int) -> int:
        """Behind a call that is a body of its own: a marker that ends a body may follow."""
        at = self._spelling.skip(text, pos)
        kind = self._kind(text, at)
        if kind is None:
            return pos
        self.status = Status.ENDED
        return self._spelling.behind(text, at) if kind == "close" else pos

    # Between parameters.

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

    def _skip(self, pos: int) -> int:
        """Something that does not belong between parameters begins."""
        self._junk_size += 1
        self._state = self._beside
        return pos + 1

    def _beside(self, text: str, pos: int) -> int:
        """Pass over what does not belong between parameters, up to a marker."""
        found = self._spelling.inside.search(text, pos)
        end = found.start() if found else self._spelling.inside.tail(text, pos)
        self._wait = found is None and end < len(text)
        if found is not None:
            self._state = self._inside
        self._junk_size += end - pos
        if self._junk_size > _TRAILER and not self._call.dry:
            if self._call.started:
                self._call.fail("malformed", "expected a parameter or the end of the call")
            else:
                self._go_dry()
        return end

    def _left(self, pos: int) -> int:
        """Another body begins where this one has just said a name."""
        if self._call.dry:
            self.status = Status.ENDED
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

    def _kind(self, text: str, pos: int) -> Kind | Literal[False] | None:
        kind = self._spelling.kind_at(text, pos)
        self._wait = kind is None
        return kind

    def _note_start(self) -> None:
        if self._call.started and self._call is not self._counted:
            self._counted = self._call
            self.calls += 1
            self.status = Status.STARTED

    def _close_call(self) -> None:
        """The call is whole: it ends well when the body does, at once where no marker surrounds it."""
        self._call.close()
        self._note_start()
        if self._wrapped:
            self.status = Status.NEXT
            self._state = self._between
        else:
            self._sink.finish()
            self._state = self._behind

    def _end(self) -> None:
        """The body is over, and what it holds counts."""
        self._sink.finish()
        self.status = Status.ENDED

    def _go_dry(self) -> None:
        """This call is none: walk to its end without sending."""
        self._sink.finish()
        self._call.dry = True
        if self._value is not None:
            self._value.drop()
        if self.status is Status.READING:
            self.status = Status.UNKNOWN

    # The end of the reply.

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply here; `tail` is what the last `feed` left. Sets `status`, and `rest`."""
        natural = stop_reason in _NATURAL
        if self._state == self._in_value:
            self._close_value(tail, natural=natural)
        elif self._state == self._in_object:
            self._cut_off()
        elif self._state in {self._inside, self._beside}:
            self._close_inside(tail, natural=natural)
        elif self._state not in {self._lead, self._begin}:
            self.rest = "".join(self._junk) + tail if self._junk else self._not_begun(tail)
        if natural:
            self._sink.finish()
        else:
            self._sink.cut_off("the reply ended before the closing marker")
        self.status = Status.ENDED

    def _close_value(self, tail: str, *, natural: bool) -> None:
        assert self._value is not None
        rest = self._value.close(tail) if natural and not self._call.dry else None
        if self._value.fault is not None:
            self._call.fail_by(self._value.fault)
        elif rest is not None:
            self.rest = rest
            self._close_call()
        else:
            self._cut_off()

    def _close_inside(self, tail: str, *, natural: bool) -> None:
        if natural and self._call.begun and not self._call.dry:
            self.rest = self._not_begun(tail)
            self._close_call()
        else:
            self._cut_off()

    def _cut_off(self) -> None:
        self._call.fail("truncated", "the reply ended inside the call")
        self._note_start()

    def _not_begun(self, tail: str) -> str:
        """Give the tail, unless it is the beginning of a marker."""
        behind = self._spelling.skip(tail, 0)
        return "" if self._spelling.inside.begun(tail, behind) and behind < len(tail) - 1 else tail


def _over(_text: str, _pos: int) -> int:
    raise AssertionError
