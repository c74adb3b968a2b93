"""A body that is written in one of several languages: its first characters tell which.

Rule: the first of them that can begin here is the one; its reader does all the rest.
Neighbours: `dialect.Body` is what they are, `stream` feeds the reader.
"""

from dataclasses import dataclass, replace

from fcshim.events import StopReason
from fcshim.parse.body import BodyReader, BodyStatus
from fcshim.parse.dialect import Body, Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink


@dataclass(frozen=True, slots=True)
class UnionBody:
    """Several languages; calls are asked for in the first."""

    bodies: tuple[Body, ...]

    @property
    def grammar(self) -> str:
        """Name the grammar of the first."""
        return self.bodies[0].grammar

    def begins(self, text: str, pos: int) -> bool | None:
        """Say whether one of them can begin here; None while that is not known yet."""
        picked = self.select(text, pos)
        return None if picked is None else bool(picked)

    def select(self, text: str, pos: int) -> Body | bool | None:
        """Give the one that begins here, False for none, None while that is not known yet."""
        for body in self.bodies:
            begins = body.begins(text, pos)
            if begins is not False:
                return body if begins else None
        return False

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of one body."""
        return UnionBodyReader(self, dialect, start_marker, sink, limits)


class UnionBodyReader(BodyReader):
    """Waits until it is known which language this is, then passes everything on to its reader."""

    def __init__(self, union: UnionBody, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> None:
        self.status = BodyStatus.READING
        self.unread = ""
        self.call_count = 0
        self._union = union
        self._dialect = dialect
        self._start_marker = start_marker
        self._sink = sink
        self._limits = limits
        self._reader: BodyReader | None = None

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` up to the next status; what is not consumed must come again, with more behind it."""
        if self._reader is None:
            body = self._union.select(text, pos)
            if body is None or isinstance(body, bool):
                self.status = BodyStatus.READING if body is None else BodyStatus.NO_BODY
                return pos
            self._reader = body.reader(replace(self._dialect, body=body), self._start_marker, self._sink, self._limits)
        pos = self._reader.feed(text, pos)
        self._copy_state(self._reader)
        return pos

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply here; `tail` is what the last `feed` left. Sets `status`, and `rest`."""
        self.status = BodyStatus.ENDED
        if self._reader is not None:
            self._reader.close(tail, stop_reason)
            self._copy_state(self._reader)

    def _copy_state(self, reader: BodyReader) -> None:
        self.status, self.unread, self.call_count = reader.status, reader.unread, reader.call_count
        self.in_content = reader.in_content

    def refuse(self) -> None:
        """Take the call that is being read for text: it has become too long for something that was not sent."""
        if self._reader is not None:
            self._reader.refuse()

    def dispose(self) -> None:
        """Break the reference to itself, so that a body's memory is free at once."""
        if self._reader is not None:
            self._reader.dispose()

    def active_reader(self) -> BodyReader:
        """Give the reader of the language, once it is known."""
        return self if self._reader is None else self._reader
