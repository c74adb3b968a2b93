"""Read a body of JSON between markers: strict as it comes, what deviates by the tolerant grammar.

Theory of operation. At a deviation the rest of the body is collected up to a closing marker, `mend` writes it anew as
strict JSON, and that text is read by the same strict reader from where it stood.

Rule: what a value means is the subclass's; here is only where the body ends and how it is spelled.
Neighbours: `arguments` has the strict reader and the mending, `body` knows the envelope.
"""

from abc import abstractmethod

from fcshim.events import CallErrorKind, StopReason
from fcshim.parse.arguments.holding import LimitError, NotStrictError
from fcshim.parse.arguments.mend import UnmendableError, mend
from fcshim.parse.arguments.strings import State
from fcshim.parse.arguments.typed import TypedJson
from fcshim.parse.body import BodyReader, Status
from fcshim.parse.closers import closers
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink

_CLOSERS = frozenset("}]`")
_MAX_MENDS = 2
"""Attempts to mend one body: its cost stays under 10 us a character."""


class MendedJson(TypedJson, BodyReader):
    """Reads JSON up to a closing marker, whatever its spelling."""

    def __init__(self, dialect: Dialect, opener: str, sink: CallSink, limits: Limits) -> None:
        super().__init__(closers(dialect.closers()), sink, limits)
        self.status = Status.READING
        self.rest = ""
        self.calls = 0
        self._dialect = dialect
        self._opener = opener
        self._markers = dialect.body_markers()
        self._dry = False
        """True in a body that is no call, or one that must not run: it is walked to its end without sending."""
        self._mending = False
        self._lenient: list[str] = []
        self._lenient_size = 0
        self._closer_at = -1
        self._closer = ""
        """The closing marker that stands at `_closer_at`."""
        self._last_gathered = ""
        self._mends = 0

    @abstractmethod
    def _give_up(self, kind: CallErrorKind, message: str, raw: str = "") -> None:
        """This call must not run: end it with an error if its name says that it was meant, else it is text."""

    def _end(self) -> None:
        """The body is over, and what it holds counts."""
        self._sink.finish()
        self.status = Status.ENDED

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

    def _skip(self, text: str, pos: int) -> int:
        """Pass over what is left of a body that cannot be read, to its closing marker, or to the next call."""
        closes = self._dialect.closes_bodies
        found = (self._closers if closes else self._markers).search(text, pos)
        if found is not None:
            self.status = Status.ENDED
            return found.end() if closes else found.start()
        end = self._markers.tail(text, pos)
        self._wait = end < len(text)
        return end

    # Collecting.

    def _collect(self, text: str, pos: int) -> int:
        """Gather what is not strict JSON, up to a marker that ends it."""
        found = self._markers.search(text, pos)
        end = found.start() if found else self._markers.tail(text, pos)
        self._gather(text[pos:end])
        if not found:
            self._wait = end < len(text)
            return end
        if found[0] not in self._openers:
            return self._closer_found(found[0], found.start(), found.end())
        if not self._mends and self._looks_complete() and self._mended():
            self.status = Status.ENDED
            return found.start()
        self._gather(found[0])
        return found.end()

    @property
    def _openers(self) -> tuple[str, ...]:
        return self._dialect.inner_openers()

    def _looks_complete(self) -> bool:
        return self._last_gathered in _CLOSERS

    def _gather(self, text: str) -> None:
        self._lenient.append(text)
        self._lenient_size += len(text)
        self._last_gathered = text.rstrip()[-1:] or self._last_gathered
        if self._lenient_size > self._limits.mend:
            raise LimitError(f"more than {self._limits.mend} characters that are not strict JSON")

    def _closer_found(self, closer: str, start: int, end: int) -> int:
        try:
            self._mend(closed=True)
        except UnmendableError as error:
            if error.where == "string" and self._mends < _MAX_MENDS:
                if self._closer_at < 0:
                    self._closer_at, self._closer = self._lenient_size, closer
                self._gather(closer)
                return end
            self._malformed(error)
            if self._closer_at >= 0 and error.where == "syntax":
                self.rest = self._behind_closer("".join(self._lenient))
                self.status = Status.ENDED
                return start
        self._end()
        return end

    def _behind_closer(self, lenient: str) -> str:
        return lenient[self._closer_at + len(self._closer) :]

    # Mending.

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
        grammar = self._dialect.body.grammar
        mended = mend(grammar, self._containers, self._rest, lenient, self._dialect.call_markers())
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
            case "opened":
                return self._first_key if self._containers[-1] == "{" else self._first_item
            case "after":
                return self._after if self._containers else self._done
            case "string":
                return self._string
            case "start":  # a body begins with a bracket, which is firm
                raise AssertionError

    def _malformed(self, error: UnmendableError) -> None:
        self._give_up("malformed", str(error), "".join(self._lenient))

    # The end of the reply.

    def _close_incomplete(self) -> None:
        """The reply ended inside the body: a call whose name is known was cut off, all else is text."""
        if self._dry and not self._sink.pending:
            return
        self._withdraw()
        self._give_up("truncated", "the reply ended inside the call")
        self._sink.cut_off("the reply ended inside the call")

    def _close_lenient(self, tail: str, *, natural: bool) -> None:
        self._lenient.append(tail)
        if self._closer_at >= 0:
            lenient = "".join(self._lenient)
            self.rest = self._behind_closer(lenient)
            self._give_up("malformed", "a string is not closed", lenient)
        elif not (natural and self._mended()):
            self._close_incomplete()

    def _close_paused(self, tail: str, *, natural: bool) -> None:
        """The closing marker in a string that never closed was the end of the call: the closers are missing."""
        if not natural or self._dry:
            self._close_incomplete()
            return
        held = self._withdraw()
        closer = self._closers.at(held, 0)
        self.rest = held[len(closer) :] + tail
        self._mending = True
        self._state = self._string
        missing = "".join("}" if container == "{" else "]" for container in reversed(self._containers))
        try:
            self.read_whole('"' + missing)
        except NotStrictError:
            self._give_up("malformed", "a string is not closed", closer)
        self._sink.finish()

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply here; `tail` is what the last `feed` left. Sets `status`, and `rest`."""
        self.status = Status.READING
        natural = stop_reason in {"complete", "stop_sequence", "tool_use"}
        if self._state == self._collect:
            self._close_lenient(tail, natural=natural)
        elif self._paused:
            self._close_paused(tail, natural=natural)
        else:
            self._close_incomplete()
        if self.status is Status.READING:
            self.status = Status.ENDED
