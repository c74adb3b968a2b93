"""The states of calls: their bodies, and sections of several calls.

Theory of operation. A body reader consumes text; what it consumed is kept until it is clear whether it was a call
(dropped) or text (said). What may be quoted is held, calls and all (`output`), until its surroundings are known.

Rule: what turns out not to be a call is text from its first byte on, and is not searched again.
Neighbours: `openers` says what a marker opens, body readers find the calls, `held` the places where they may be
quoted.
"""

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

from fcshim.parse.body import BodyReader, Status
from fcshim.parse.closers import Closers, closers
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.machine.code import CodeMachine
from fcshim.parse.machine.openers import Openers, Opening
from fcshim.parse.machine.output import Hold
from fcshim.parse.sink import CallSink
from fcshim.parse.spoiled import Spoiled

_SPACE = re.compile(r"\s*+")
_SHORTEST_GAP = 4
"""White space of fewer characters may stand between a call and a closing marker that is one too many."""
_SHORT_SPACE = re.compile(rf"\s{{0,{_SHORTEST_GAP}}}")


class _Section:
    """A section of calls that is being read."""

    def __init__(self, row: Dialect, home: Callable[[int], int], count: int) -> None:
        self.row = row
        self.home = home
        self.count = count
        """The sink's, at its beginning."""
        self.raw: list[str] = []
        """What of it is neither said nor dropped yet: its opener, white space between calls."""


class CallMachine(CodeMachine):
    """The states of calls."""

    def __init__(self, openers: Openers, sink: CallSink, limits: Limits, *, asked: Dialect | None) -> None:
        super().__init__(sink, limits)
        self._openers = openers
        self._asked = asked
        self._held = False
        self._marked = False
        self._tagged = False
        """True when a marker of the dialect that was asked for opened the body."""
        self._home: Callable[[int], int] = self._text
        self._body: BodyReader | None = None
        self._closers: Closers = closers(())
        self._section: _Section | None = None
        self._raw: list[str] = []
        self._raw_size = 0
        self._refused = False
        """True when nothing of the body counts any more."""
        self._count_before = 0
        """Calls that the sink knew before this body."""
        self._fate: Literal["keep", "drop", "say"] = "keep"

    # Openings.

    def _opening(self, pos: int) -> tuple[Opening, str] | None:
        """Give what opens exactly here, with its marker; stalls where that is not known yet."""
        buffer = self._buffer
        word = self._openers.word(buffer, pos)
        found = self._openers.calls.match(buffer, pos)
        marker = word or (found[0] if found else buffer[pos] if buffer[pos] in self._openers.starts else "")
        rest = buffer[pos : pos + 32]
        if self._openers.calls.begun(buffer, pos) or any(w != rest and w.startswith(rest) for w in self._openers.words):
            self._stall = True
            return None
        if not marker:
            return None
        picked = self._openers.pick(f"\n{word}", buffer, pos - 1) if word else self._openers.pick(marker, buffer, pos)
        self._stall = picked is None
        return (picked, marker) if isinstance(picked, Opening) else None

    def _open(self, opening: Opening, marker: str, pos: int, home: Callable[[int], int]) -> int:
        """Begin to read what opens at `pos`; `home` is the state that follows it. Gives the place to go on."""
        if opening.section:
            self._hold_or_flush(marker)
            self._section = section = _Section(opening.row, home, self._sink.count)
            if self._output.hold is None:
                section.raw.append(marker)
            self._state = self._in_section
        elif opening.bare:
            self._open_body(opening.row, "", home)
            return pos
        else:
            self._open_body(opening.row, marker, home)
        return pos + len(marker)

    def _hold_or_flush(self, marker: str) -> None:
        if self._output.hold is None:
            self._output.flush()
        elif marker:
            self._output.hold.add(marker)

    def _open_body(self, row: Dialect, marker: str, home: Callable[[int], int]) -> None:
        self._hold_or_flush(marker)
        # A model is held to a format by that format's own marker: behind another spelling it is held to nothing.
        self._sink.held = self._held and row is self._asked and marker == row.open
        self._body = row.body.reader(row, marker, self._sink, self._limits)
        # Another line of backticks is no closing marker that comes twice: it opens the next fence.
        self._closers = closers(() if row.close.startswith("`") else row.closers())
        self._refused = False
        self._tagged = bool(marker) and row is self._asked
        self._sink.unoffered = ""
        self._count_before = self._sink.count
        self._raw = [marker]
        self._raw_size = 0
        if self._section is not None:
            self._raw[:0] = self._section.raw
            self._section.raw.clear()
        self._fate = "keep"
        self._home = home
        self._state = self._call

    # Sections.

    def _in_section(self, pos: int) -> int:
        """Between the calls of a section."""
        section = self._section
        assert section is not None
        buffer = self._buffer
        found = _SPACE.match(buffer, pos)
        assert found is not None
        if found.end() > pos:
            self._section_said(section, found[0])
            if found.end() == len(buffer):
                return len(buffer)
            pos = found.end()
        for opener in section.row.openers():
            if buffer.startswith(opener, pos):
                self._open_body(section.row, opener, self._in_section)
                return pos + len(opener)
        if buffer.startswith(section.row.section_close, pos):
            end = pos + len(section.row.section_close)
            return self._section_ended(section, buffer[pos:end], end)
        rest = buffer[pos : pos + 64]
        if any(marker.startswith(rest) for marker in (*section.row.openers(), section.row.section_close)):
            self._stall = True
            return pos
        return self._section_ended(section, "", pos)

    def _section_said(self, section: _Section, space: str) -> None:
        if self._output.hold is not None:
            self._output.hold.add(space)
        else:
            section.raw.append(space)

    def _section_ended(self, section: _Section, closer: str, pos: int) -> int:
        """The section is over: its marks are dropped if there were calls in it, else they are text."""
        self._section = None
        self._state = self._home = section.home
        hold = self._output.hold
        if hold is not None:
            hold.add(closer)
            if hold.calls:
                self._state = self._behind_held(hold)
            else:
                self._output.release()
        elif self._sink.count == section.count:
            self._output.say("".join(section.raw) + closer)
        elif not closer:
            self._output.say("".join(section.raw))
        return pos

    # Bodies.

    def _call(self, pos: int) -> int:
        body = self._body
        assert body is not None
        new = body.feed(self._buffer, pos)
        self._account(self._buffer[pos:new])
        return self._act(body, new)

    def _act(self, body: BodyReader, new: int) -> int:
        """Do what the body reader's status says; `new` is where it stands."""
        match body.status:
            case Status.READING:
                self._stall = new < len(self._buffer)
            case Status.STARTED:
                self._fate = "drop"
                self._forget()
            case Status.UNKNOWN:
                if self._output.hold is not None:
                    self._refuse(body)  # in a place that may be quoted all must be calls, or none is
                self._unknown()
            case Status.NEXT:
                self._next()
            case Status.ENDED:
                return self._body_ended(body, new)
            case Status.REJECTED:
                self._not_a_call("")
                self._body = None
                self._state = self._home
                return new
        if (self._output.hold.size if self._output.hold is not None else self._raw_size) > self._limits.hold:
            self._refuse(body)
            self._unknown()
        return new

    def _next(self) -> None:
        """One call of the body is over; what was no call is said before the next one begins."""
        if self._refused:
            return
        self._fate = "keep"
        self._forget()
        if self._output.hold is None:
            self._output.flush()

    def _refuse(self, body: BodyReader) -> None:
        body.refuse()
        self._refused = True

    def _account(self, piece: str) -> None:
        """Put what the body reader consumed where it may be needed."""
        if self._output.hold is not None:
            self._output.hold.add(piece)
        elif self._fate == "keep":
            self._raw.append(piece)
            self._raw_size += len(piece)
        elif self._fate == "say":
            self._output.say(piece)

    def _forget(self) -> None:
        self._raw.clear()
        self._raw_size = 0

    def _unknown(self) -> None:
        self._mark()
        self._not_a_call("")
        self._fate = "say"

    def _mark(self) -> None:
        """Say, where that is wanted, that what was meant as a call is none."""
        if not self._marked or self._fate == "say" or self._output.hold is not None or self._output.reasons:
            return
        if self._sink.unoffered:
            self._output.mark(Spoiled("", fault="unoffered", name=self._sink.unoffered))
        elif self._tagged:
            self._output.mark(Spoiled("", fault="unreadable"))

    def _not_a_call(self, rest: str) -> None:
        """What was read is text after all, all but `rest`."""
        if self._output.hold is not None:
            _cut(self._output.hold.raw, rest)
            self._release()
        else:
            _cut(self._raw, rest)
            self._output.say("".join(self._raw))
        self._forget()

    def _body_ended(self, body: BodyReader, pos: int) -> int:
        rest = "" if self._fate == "say" else body.rest  # else it was said already
        body.dispose()
        self._body = None
        self._state = self._home
        if self._fate == "keep" and self._sink.count <= self._count_before:
            self._mark()
            self._not_a_call(rest)
        elif self._output.hold is not None:
            _cut(self._output.hold.raw, rest)
            self._held_call_ended(self._output.hold)
        elif self._fate != "say":
            self._output.line.after_call()
            self._state = self._behind_call
        if rest and self._buffer.endswith(rest, 0, pos):
            return pos - len(rest)
        if rest:
            self._buffer = rest + self._buffer[pos:]
            return 0
        return pos

    def _behind_call(self, pos: int) -> int:
        """A closing marker that comes twice, or where none is needed, is dropped with the space before it."""
        found = _SHORT_SPACE.match(self._buffer, pos)
        assert found is not None
        end = found.end()
        if self._section is None and self._closers.longest:
            closer = self._closers.at(self._buffer, end)
            if closer:
                return end + len(closer)
            short = end - pos < _SHORTEST_GAP
            if (end == len(self._buffer) and short) or self._closers.begun(self._buffer, end):
                self._stall = True
                return pos
        self._state = self._home
        return pos

    # What is held.

    @abstractmethod
    def _held_call_ended(self, hold: Hold) -> None:
        """The body of a call that is held is over."""

    @abstractmethod
    def _behind_held(self, hold: Hold) -> Callable[[int], int]:
        """Give the state behind calls that are held."""

    @abstractmethod
    def _release(self) -> None:
        """What was held is text, the section it is in included."""


def _cut(raw: list[str], rest: str) -> None:
    """Take `rest`, which is to be read again, away from the end."""
    if rest:
        raw[:] = ["".join(raw)[: -len(rest)]]
