"""A body in one of several syntaxes, which its first characters decide.

Rule: the first syntax that can begin here is selected; from then on its reader does all the work.
"""

from dataclasses import dataclass, replace

from fcshim.events import StopReason
from fcshim.parse.body import BodyReader, BodyStatus
from fcshim.parse.dialect import Body, Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink


@dataclass(frozen=True, slots=True)
class UnionBody:
    """Several syntaxes; the prompt requests the first."""

    bodies: tuple[Body, ...]

    @property
    def grammar(self) -> str:
        """Name of the first syntax's grammar."""
        return self.bodies[0].grammar

    def begins(self, text: str, pos: int) -> bool | None:
        """Return whether one of the syntaxes can begin at `pos`; None if more text is needed to tell."""
        selected = self.select(text, pos)
        return None if selected is None else bool(selected)

    def select(self, text: str, pos: int) -> Body | bool | None:
        """Return the syntax that begins at `pos`, False for none, None if more text is needed to tell."""
        for body in self.bodies:
            begins = body.begins(text, pos)
            if begins is not False:
                return body if begins else None
        return False

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Create the reader of one body."""
        return UnionBodyReader(self, dialect, start_marker, sink, limits)


class UnionBodyReader(BodyReader):
    """Buffers nothing: consumes no text until the syntax is known, then delegates to that syntax's reader."""

    def __init__(self, union: UnionBody, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> None:
        self._union = union
        self._dialect = dialect
        self._start_marker = start_marker
        self._sink = sink
        self._limits = limits
        self._reader: BodyReader | None = None

    def feed(self, text: str, pos: int) -> int:
        """Read `text[pos:]` until the status changes, and return the position reached."""
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
        """End the reply; `tail` is what the last `feed` did not consume. Sets `status` and `unread`."""
        self.status = BodyStatus.ENDED
        if self._reader is not None:
            self._reader.close(tail, stop_reason)
            self._copy_state(self._reader)

    def _copy_state(self, reader: BodyReader) -> None:
        self.status, self.unread = reader.status, reader.unread
        self.in_content = reader.in_content

    def refuse(self) -> None:
        """Treat the current call and all later calls of this body as text."""
        if self._reader is not None:
            self._reader.refuse()

    def dispose(self) -> None:
        """Break the reference cycle of the delegate, so that the memory is freed immediately."""
        if self._reader is not None:
            self._reader.dispose()

    def active_reader(self) -> BodyReader:
        """Return the reader of the selected syntax, once it is known."""
        return self if self._reader is None else self._reader
