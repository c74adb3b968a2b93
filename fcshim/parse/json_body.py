"""Read the body of a call that is written as JSON: `{"name": ..., "arguments": {...}}`, or an array of such.

Theory of operation. The strict reader walks the whole body; this class knows the envelope: at its depth the value of a
name key is the name, the value of an argument key is what is sent. At a deviation the rest of the body is collected up
to a closing marker, `mend` writes it anew as strict JSON, and that text is read by the same strict reader. A body that
turns out not to be a call is walked to its end all the same (`dry`), so that a call inside its strings is not seen.

Rule: the start of a call is sent with its first argument character, so that as much as possible can still be text.
Neighbours: `stream` feeds it and acts on `status`; `sink` makes the events.
"""

import enum
import json

from fcshim.events import CallErrorKind, StopReason
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.markers import MarkerSet
from fcshim.parse.mend import UnmendableError, mend
from fcshim.parse.sink import CallSink
from fcshim.parse.strict import LimitError, NotStrictError, State, StrictJson

_FENCE = "```"
_CLOSERS = frozenset("}]`")
_TRAILER = 200
"""Characters between a complete body and its closing marker that are passed over: a full stop, a fence, a remark."""
_MAX_MENDS = 2
"""Attempts to mend one body: its cost stays under 10 us a character."""


class Status(enum.Enum):
    """What the last `feed` found."""

    READING = enum.auto()
    STARTED = enum.auto()
    """A call was started: what was read so far is not text."""
    UNKNOWN = enum.auto()
    """This call is none: what was read so far is text, and so is the rest of it."""
    NEXT = enum.auto()
    """One call of the body is complete; what follows belongs to the next or to the end."""
    ENDED = enum.auto()
    """The body is over; `rest` is to be read again as text."""
    REJECTED = enum.auto()
    """There is no body here at all."""


class JsonBody(StrictJson):
    """Reads one body; `calls` counts those that were started, `rest` is text to be read again once it has ended."""

    def __init__(self, dialect: Dialect, sink: CallSink, limits: Limits) -> None:
        super().__init__(dialect.close, limits)
        self.status = Status.READING
        self.rest = ""
        self.calls = 0
        self._dialect = dialect
        self._sink = sink
        self._markers = MarkerSet((dialect.open, dialect.close))
        self._state = self._begin
        self._base_depth = 1
        self._out: list[str] = []
        self._dry = False
        self._mending = False
        self._lenient: list[str] = []
        self._lenient_size = 0
        self._closer_at = -1
        self._last_gathered = ""
        self._mends = 0
        self._trailer: list[str] = []
        self._next_due = False
        self._new_call()

    def _new_call(self) -> None:
        self._member = ""
        self._depth = self._base_depth
        self._name: str | None = None
        self._name_parts: list[str] = []
        self._encoded: list[str] = []
        self._early: list[str] = []
        self._has_arguments = False
        self._arguments_depth = -1
        self._started = False
        self._into = None

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` up to the next status; what is not consumed must come again, with more behind it."""
        if self._next_due:
            self._next_due = False
            self.status = Status.NEXT
            return pos
        reading = self.status = Status.READING
        self._wait = False
        size = len(text)
        try:
            while pos < size:
                pos = self._state(text, pos)
                if self._wait or self.status is not reading:
                    break
            if self._out:
                self._flush()
        except LimitError as error:
            self._give_up("limit", str(error))
            self._state = self._skip
            if self.status is Status.READING:
                pos = self._skip(text, pos)
        return pos

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """The reply ended here; `tail` is what the last `feed` left. Sets `status`, and `rest`."""
        self.status = Status.READING
        natural = stop_reason in {"complete", "stop_sequence", "tool_use"}
        if self._state in {self._done, self._after_body}:
            self._close_complete(tail, natural=natural)
        elif self._state == self._collect:
            self._close_lenient(tail, natural=natural)
        elif self._paused:
            self._close_paused(tail, natural=natural)
        else:
            self._close_incomplete()
        if self.status is Status.READING:
            self.status = Status.ENDED

    def refuse(self) -> None:
        """Take the call that is being read for text: it has become too long for something that was not sent."""
        self._go_dry()

    def dispose(self) -> None:
        """Break the reference to itself, so that a body's memory is free at once."""
        self._state = _over

    def string_piece(self, text: str) -> bool:
        """Send `text` at once if it lies wholly inside a string of the arguments; else do nothing. The quick way."""
        plain = self._in_content and self._into is self._out and self._closer[0] not in text
        if not plain or self._run.fullmatch(text) is None or not self._sink.has_room(len(text)):
            return False
        return self._sink.chunk(text)

    # The envelope.

    def _begin(self, text: str, pos: int) -> int:
        pos = self._skip_space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] == "{":
            self._state = self._value
        elif text[pos] == "[":
            self._base_depth = self._depth = 2
            self._state = self._value
        elif text.startswith(_FENCE, pos):
            return self._deviate(text, pos)
        elif _FENCE.startswith(text[pos:]):
            self._wait = True
        else:
            self.status = Status.REJECTED
        return pos

    def _skip_space(self, text: str, pos: int) -> int:
        while pos < len(text) and text[pos] in " \t\r\n":
            pos += 1
        return pos

    def _in_envelope(self) -> bool:
        return len(self._containers) == self._depth and self._arguments_depth < 0

    def _key_read(self, key: str) -> None:
        if self._in_envelope():
            self._member = key

    def _key_twice(self, key: str) -> None:
        self._give_up("malformed", f"the key {key[:40]!r} comes twice", key)

    def _value_begins(self, first: str) -> None:
        if self._dry or self._arguments_depth >= 0:
            return
        if len(self._containers) == self._base_depth - 1:
            self._element_begins(first)
        elif self._in_envelope():
            self._member_begins(first)

    def _element_begins(self, first: str) -> None:
        """A value at the top: only an object can be a call."""
        if first != "{":
            self._give_up("malformed", "expected an object with name and arguments", first)

    def _member_begins(self, first: str) -> None:
        shape = self._dialect.shape
        if self._member in shape.name_keys and self._name is None and first == '"':
            self._into = self._name_parts
        elif self._member in shape.argument_keys and not self._has_arguments:
            self._has_arguments = True
            self._arguments_begin(first)
        elif self._member in shape.wrapper_keys and self._name is None and first == "{":
            self._depth += 1

    def _arguments_begin(self, first: str) -> None:
        if first == "{":
            self._arguments_depth = len(self._containers)
            self._into = self._early if self._name is None else self._out
            if self._name is not None:
                self._start()
        elif first == '"':
            self._into = self._encoded
        elif first == "null":
            self._has_arguments = False
        else:
            self._give_up("malformed", "the arguments are not an object", first)

    def _string_ended(self) -> None:
        if self._into is self._name_parts:
            self._into = None
            self._name_read(json.loads("".join(self._name_parts) + '"'))
        elif self._into is self._encoded:
            self._into = None

    def _name_read(self, name: str) -> None:
        if self._dry:
            return
        if not self._sink.offers(name):
            self._go_dry()
            return
        self._name = name
        if self._has_arguments and not self._encoded:
            self._start()
            self._out.extend(self._early)
            self._early = []

    def _start(self) -> None:
        assert self._name is not None
        self._started = True
        self.calls += 1
        self._sink.start(self._name)
        if self.status is Status.READING:
            self.status = Status.STARTED

    def _container_ended(self) -> None:
        depth = len(self._containers)
        if depth == self._arguments_depth:
            self._arguments_depth = -1
            self._flush()
            self._into = None
        elif self._arguments_depth < 0 and depth < self._depth:
            self._object_ended(depth)

    def _object_ended(self, depth: int) -> None:
        if depth == self._base_depth - 1:
            self._call_ended()
        elif depth >= self._base_depth:
            self._depth = depth

    def _call_ended(self) -> None:
        if not self._dry:
            if self._name is None:
                self._go_dry()
            else:
                self._complete()
        if self.status is Status.UNKNOWN:
            self._next_due = True
        elif not self._mending:
            self.status = Status.NEXT
        if self._base_depth == 2:
            self._dry = False
            self._new_call()

    def _complete(self) -> None:
        """The call's object is whole: send what was not sent yet. Its end comes with the end of the body."""
        if not self._started:
            self._start()
            arguments = self._decoded() if self._encoded else "{}"
            if arguments is None:
                self._sink.fail("malformed", "the arguments are not an object", "".join(self._encoded))
                return
            self._out.append(arguments)
        self._flush()
        self._sink.complete()

    def _decoded(self) -> str | None:
        """Give arguments that were written as a JSON string, as strict JSON of an object."""
        inner: str = json.loads("".join(self._encoded) + '"').strip()
        strict = _read_object(inner, self._limits)
        if strict is not None or len(inner) > self._limits.mend:
            return strict
        try:
            mended = mend(self._dialect.grammar, (), "start", inner, ())
        except UnmendableError:
            return None
        return _read_object(mended.text, self._limits) if mended.complete else None

    # Not a call, or one that must not run.

    def _go_dry(self) -> None:
        """This call is none: walk to its end without sending."""
        self._sink.finish()
        self._dry = True
        self._into = None
        self._early = []
        if self.status is Status.READING:
            self.status = Status.UNKNOWN

    def _give_up(self, kind: CallErrorKind, message: str, raw: str = "") -> None:
        """This call must not run: end it with an error if its name says that it was meant, else it is text."""
        if self._dry:
            return
        if self._name is None:
            self._go_dry()
            return
        self._flush()
        if not self._started:
            self._start()
        if self._sink.open:
            self._sink.fail(kind, message, raw)
        self._dry = True
        self._into = None

    def _flush(self) -> None:
        if self._out:
            text = "".join(self._out)
            self._out.clear()
            if not self._sink.chunk(text):
                raise LimitError(f"arguments of more than {self._limits.arguments} characters")

    def _skip(self, text: str, pos: int) -> int:
        """Pass over what is left of a body that cannot be read, to its closing marker."""
        at = text.find(self._closer, pos)
        if at >= 0:
            self.status = Status.ENDED
            return at + len(self._closer)
        end = self._markers.tail(text, pos)
        self._wait = end < len(text)
        return end

    # The end of the body.

    def _done(self, text: str, pos: int) -> int:
        pos = self._skip_space(text, pos)
        if pos == len(text):
            return pos
        if text.startswith(self._closer, pos):
            self._end()
            return pos + len(self._closer)
        if self._closer.startswith(text[pos:]):
            self._wait = True
            return pos
        if self._dry:
            self.status = Status.ENDED
            return pos
        if text[pos] == "{" and self._base_depth == 1:
            self._dry = False
            self._new_call()
            self._state = self._value
            return pos
        self._state = self._after_body
        return pos

    def _after_body(self, text: str, pos: int) -> int:
        """Look for the closing marker behind something that does not belong there."""
        found = self._markers.search(text, pos, pos + _TRAILER + len(self._closer))
        end = found.start() if found else self._markers.tail(text, pos)
        self._trailer.append(text[pos:end])
        too_long = sum(map(len, self._trailer)) > _TRAILER
        if found and found[0] == self._closer and not too_long:
            self._end()
            return found.end()
        if found or too_long:
            self.rest = "".join(self._trailer)
            self._end()
            return end
        self._wait = end < len(text)
        return end

    def _end(self) -> None:
        self._sink.finish()
        self.status = Status.ENDED

    def _close_complete(self, tail: str, *, natural: bool) -> None:
        if self._dry:
            return
        begun = not self._trailer and len(tail) > 1 and self._closer.startswith(tail)
        self.rest = "".join(self._trailer) + ("" if begun else tail)
        if natural or self._trailer:
            self._sink.finish()
        else:
            self._sink.cut_off("the reply ended before the closing marker")

    def _close_paused(self, tail: str, *, natural: bool) -> None:
        """The closing marker in a string that never closed was the end of the call: the closers are missing."""
        if not natural or self._dry:
            self._close_incomplete()
            return
        self.rest = self._withdraw()[len(self._closer) :] + tail
        self._mending = True
        self._state = self._string
        closers = "".join("}" if container == "{" else "]" for container in reversed(self._containers))
        try:
            self.read_whole('"' + closers)
        except NotStrictError:
            self._give_up("malformed", "a string is not closed", self._closer)
        self._sink.finish()

    def _close_incomplete(self) -> None:
        """The reply ended inside the body: a call whose name is known was cut off, all else is text."""
        if self._dry and not self._sink.pending:
            return
        self._withdraw()
        self._give_up("truncated", "the reply ended inside the call")
        self._sink.cut_off("the reply ended inside the call")

    # Mending.

    def _deviate(self, _text: str, pos: int) -> int:
        if self._mending:
            raise NotStrictError
        if self._dry:
            self._withdraw()
            self._state = self._skip
            return pos
        # What is held was sent to nobody; the string it may end is open again.
        self._lenient = [self._withdraw()]
        self._lenient_size = len(self._lenient[0])
        self._last_gathered = self._lenient[0].rstrip()[-1:]
        self._state = self._collect
        return pos

    def _collect(self, text: str, pos: int) -> int:
        """Gather what is not strict JSON, up to a marker that ends it."""
        found = self._markers.search(text, pos)
        end = found.start() if found else self._markers.tail(text, pos)
        self._gather(text[pos:end])
        if not found:
            self._wait = end < len(text)
            return end
        if found[0] == self._closer:
            return self._closer_found(found.start(), found.end())
        if not self._mends and self._looks_complete() and self._mended():
            self.status = Status.ENDED
            return found.start()
        self._gather(found[0])
        return found.end()

    def _looks_complete(self) -> bool:
        return self._last_gathered in _CLOSERS

    def _gather(self, text: str) -> None:
        self._lenient.append(text)
        self._lenient_size += len(text)
        self._last_gathered = text.rstrip()[-1:] or self._last_gathered
        if self._lenient_size > self._limits.mend:
            raise LimitError(f"more than {self._limits.mend} characters that are not strict JSON")

    def _closer_found(self, start: int, end: int) -> int:
        try:
            self._mend(closed=True)
        except UnmendableError as error:
            if error.where == "string" and self._mends < _MAX_MENDS:
                if self._closer_at < 0:
                    self._closer_at = self._lenient_size
                self._gather(self._closer)
                return end
            self._malformed(error)
            if self._closer_at >= 0 and error.where == "syntax":
                self.rest = "".join(self._lenient)[self._closer_at + len(self._closer) :]
                self.status = Status.ENDED
                return start
        self._sink.finish()
        self.status = Status.ENDED
        return end

    def _mended(self) -> bool:
        """Try to mend what was gathered, as a body without a closing marker."""
        try:
            self._mend(closed=False)
        except UnmendableError:
            return False
        self._sink.finish()
        return True

    def _mend(self, *, closed: bool) -> None:
        """Read what was gathered in its strict spelling. Raises `UnmendableError`."""
        self._mends += 1
        lenient = "".join(self._lenient)
        markers = (self._dialect.open, self._dialect.close)
        mended = mend(self._dialect.grammar, self._containers, self._rest, lenient, markers)
        if not closed and not mended.complete:
            raise UnmendableError("the body is not complete", "syntax")
        self._mending = True
        self._state = self._firm_state()
        try:
            self.read_whole(mended.text)
        except NotStrictError:
            self._malformed(UnmendableError("not JSON", "value"))

    def _firm_state(self) -> State:
        match self._rest:
            case "start":
                self._base_depth = self._depth = 1
                return self._either
            case "opened":
                return self._first_key if self._containers[-1] == "{" else self._first_item
            case "after":
                return self._after if self._containers else self._done
            case "string":
                return self._string

    def _either(self, text: str, pos: int) -> int:
        """The first value of a mended body: one call, or an array of them."""
        if text[pos] == "[":
            self._base_depth = self._depth = 2
        self._state = self._value
        return pos

    def _malformed(self, error: UnmendableError) -> None:
        self._give_up("malformed", str(error), "".join(self._lenient))

    def _close_lenient(self, tail: str, *, natural: bool) -> None:
        self._lenient.append(tail)
        if self._closer_at >= 0:
            lenient = "".join(self._lenient)
            self.rest = lenient[self._closer_at + len(self._closer) :]
            self._give_up("malformed", "a string is not closed", lenient)
        elif not (natural and self._mended()):
            self._close_incomplete()


def _over(_text: str, _pos: int) -> int:
    raise AssertionError


class _ObjectReader(StrictJson):
    """Reads one whole strict value into a list."""

    def __init__(self, limits: Limits, into: list[str]) -> None:
        super().__init__("\x00", limits)
        self._into = into


def _read_object(text: str, limits: Limits) -> str | None:
    """Give the strict spelling of one whole JSON object, or None if it is none."""
    parts: list[str] = []
    try:
        _ObjectReader(limits, parts).read_whole(text)
    except (LimitError, NotStrictError):
        return None
    return "".join(parts) if text[0] == "{" else None
